"""What a recipe leaves out if its user sets another task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.recipe.data import TASK
from ictcli.recipe.files import absolute, is_data
from ictcli.recipe.keys import NAMES, names_to_tables

OF_DATA = ("eval.bench", "sft.data", "reward.pattern")
"""Keys that tie a recipe to its own data."""
OF_TASK = (
    *(*OF_DATA, "eval.data", "eval.verifier", "eval.columns", "eval.hub", "sft.columns", "sft.hub"),
    *("columns", "hub", "reward.verifier", "prompt.system", "prompt.suffix", "prompt.examples"),
)
"""Keys of such a recipe that do not apply to another task."""


def leave_own_data(
    data: dict[str, Any], file: Mapping[str, Any], base: Path, typed: Sequence[str]
) -> tuple[str, ...]:
    """Remove `OF_TASK` from `data` in place, except keys that were `typed`, if its task is not that
    of its `file` and the file is tied to its own data. Return the removed keys that had a value.
    Paths in the file are relative to `base`."""
    if _task(data, base) == _task(file, base):
        return ()
    names_to_tables(data)
    words = [f"{word}.{NAMES[word]}" if word in NAMES else word for word in typed]
    left: dict[str, Any] = {}
    for key in OF_TASK:
        table, _, name = key.rpartition(".")
        values = cast(Any, data.get(table) if table else data)
        kept = any(f"{word}.".startswith(f"{key}.") or key.startswith(f"{word}.") for word in words)
        if isinstance(values, dict) and name in values and not kept:
            left[key] = values
    if (values := left.get("sft.data")) and values["data"] == TASK:
        del left["sft.data"]  # the examples are those of any task
    if not left.keys() & set(OF_DATA):
        return ()
    removed = {key: values.pop(key.rpartition(".")[2]) for key, values in left.items()}
    return tuple(key for key, value in removed.items() if value not in ({}, []))


def _task(data: Mapping[str, Any], base: Path) -> Any:
    """Return the name of a recipe's task; an absolute path if it is a file."""
    task = data.get("task")
    name = cast(Any, task).get("name") if isinstance(task, dict) else task
    return absolute(name, base, is_data)
