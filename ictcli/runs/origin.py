"""Check that a resumed run has the recipe, model, data and engine that it started with.

environment.json records them; model, data and code by checksum, so that files may be moved.
A part that has no checksum now, or had none at the start, is not compared.
"""

import copy
import hashlib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, cast

from ictcli.engine import Engine
from ictcli.engine.checksums import identity
from ictcli.engine.models import locate
from ictcli.errors import UserError
from ictcli.files.origin import Origin, difference, differing, digest
from ictcli.files.reading import read_bytes
from ictcli.rows import is_file_name
from ictcli.runs.records import Environment

PROBLEMS = {
    "train": "problems to train on",
    "heldout": "problems to evaluate on",
    "sft": "examples of sft.data",
}
"""Parts of the data that have a checksum, with their names in messages."""
MAY_CHANGE = ("model", "plugins", "engine", "checkpoint", "alarms", "log", "data")
"""Keys that may change when a run is resumed; model and data are compared by checksum instead."""


def recorded(began: Environment) -> Origin:
    """Return the checksums in environment.json: of recipe, model and problems (`of_problems`)."""
    checksums = {"recipe": began.recipe_sha256, "model": began.model.sha256}
    present = {part: sha256 for part, sha256 in checksums.items() if sha256}
    return {**present, **of_problems(began.data.to_json())}


def check_same(run: Path, began: Environment, now: Origin, since: str = "the run began") -> None:
    """Raise UserError, with `since` in its message, if `began` and `now` differ in a checksum."""
    before = recorded(began)
    shared = [part for part in before if part in now]
    differs = differing([{part: parts[part] for part in shared} for parts in (before, now)])
    changed = {name.partition(".")[0] for name in differs}
    if "recipe" in changed:
        raise UserError(
            f"{run / 'recipe.toml'}, or the file of one of its verifiers, was changed since "
            f"{since}.",
            "restore the file, or train the changed recipe as another run",
        )
    if "model" in changed:
        raise UserError(
            f"The model of {run / 'recipe.toml'} is not the model that the run began with, "
            f"{began.model.name}: its weights or its config.json differ.",
            "set model to the path of the original model, or train this model as another run",
        )
    if part := next((part for part in PROBLEMS if part in changed), None):
        old, new = (_size(parts[part]) for parts in (before, now))
        raise UserError(
            f"The {PROBLEMS[part]} changed since {run} began: {old}, and now {new}.",
            "restore the original data, or train in another folder: --run OTHER",
        )


def _size(part: Mapping[str, Any] | None) -> str:
    return f"{part['problems']:,} with checksum {part['sha256'][:12]}" if part else "not listed"


def of_recipe(recipe: Mapping[str, Any], began: Environment | None = None) -> str:
    """Return the SHA-256 of the recipe keys that decide a run's results. A verifier's file is
    hashed by content. For a run that was extended to more steps, return the SHA-256 recorded at
    its start if no other key changed."""
    data, began = _deciding(recipe), began or Environment()
    earlier = {digest({**data, "steps": steps}) for steps in began.extended_from}
    return began.recipe_sha256 if began.recipe_sha256 in earlier else digest(data)


def of_problems(data: Mapping[str, Any]) -> Origin:
    """Return the number and SHA-256 of training problems, held-out problems and examples."""
    return {part: data[part] for part in PROBLEMS if part in data}


def _deciding(recipe: Mapping[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(dict(recipe))
    engine = data.get("engine", {})
    for key in MAY_CHANGE:
        data.pop(key, None)
    # the context decides LongRoPE's frequencies
    decides = {"context": engine.get("context"), "vllm": engine.get("sampler") == "vllm"}
    if any(decides.values()):
        data["engine"] = {key: value for key, value in decides.items() if value}
    if _is_path(str(data["task"])):
        del data["task"]
    evaluation: dict[str, Any] = data.get("eval", {})
    evaluation.pop("data", None)
    if sft := data.get("sft"):
        sft["data"] = "data" in sft  # the examples have a checksum of their own
    if _is_path(str(evaluation.get("bench"))):
        del evaluation["bench"]
    for table, key in product((data.get("reward"), evaluation), ("verifier", "functions")):
        if isinstance(table, dict) and key in table:
            names = cast(dict[str, Any], table)
            is_list = isinstance(names[key], list)
            names[key] = [*map(_by_content, names[key])] if is_list else _by_content(names[key])
    return data


def _by_content(verifier: object) -> str:
    """Return a verifier FILE.py:FUNCTION with the file's SHA-256 as FILE.py; others unchanged."""
    path, _, function = str(verifier).rpartition(":")
    if not path.endswith(".py"):
        return str(verifier)
    content = hashlib.sha256(read_bytes(Path(path))).hexdigest() if Path(path).is_file() else ""
    return f"{content}:{function}"


def _is_path(name: str) -> bool:
    """Return whether a task or benchmark names a file or folder of data, which need not exist."""
    return is_file_name(name) or Path(name).is_absolute()


def of_model(model: str) -> dict[str, str]:
    """Return a model's checksum under the key "model"; an empty dict if it has no folder."""
    sha256 = identity(locate(model, trains=True))
    return {"model": sha256} if sha256 else {}


def check_engine(
    run: Path, began: Environment, engine: Engine, *, adapters: bool, option: str
) -> str | None:
    """Return a warning if the engine, its dtype, quantisation or kernels differ from those that a
    run started with, else None. UserError if a run with adapters changes its engine. `option` is
    the option, `--backend ` for example, with which the hint names the engine."""
    now = engine.describe()
    before = {**now, **began.engine.to_json()}
    if adapters and before["engine"] != now["engine"]:
        raise UserError(
            f"{run} began with {before['engine']}, and cannot continue with {now['engine']}: the "
            "engines store adapters differently.",
            f"{option}{before['engine']}",
        )
    names = ("engine", "dtype", "bits", "kernels")
    differs = difference(*({name: parts.get(name) for name in names} for parts in (before, now)))
    return differs and (
        f"{run} began with {differs}: its results will differ from those of a run that was not "
        "stopped."
    )
