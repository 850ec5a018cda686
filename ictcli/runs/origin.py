"""Check that a run continues with what it began with: its recipe, model, problems and engine.

environment.json records them; models, data and code by checksum, so that they may lie elsewhere.
Parts that only one of two origins has are not compared: older versions recorded fewer, and a
problem is looked at only where it can be had.
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
"""Data whose checksums are recorded."""
MAY_CHANGE = ("model", "plugins", "engine", "checkpoint", "alarms", "log", "data")
"""Keys that may differ between two processes of a run; the model and the data have checksums."""


def recorded(began: Environment) -> Origin:
    """Return the parts that environment.json has."""
    checksums = {"recipe": began.recipe_sha256, "model": began.model.sha256}
    known = {part: sha256 for part, sha256 in checksums.items() if sha256}
    return {**known, **of_problems(began.data.to_json())}


def check_same(run: Path, began: Environment, now: Origin, since: str = "the run began") -> None:
    """Raise UserError, with a sentence on what differs, where a part that both have does."""
    before = recorded(began)
    shared = [part for part in before if part in now]
    differs = differing([{part: parts[part] for part in shared} for parts in (before, now)])
    changed = {name.partition(".")[0] for name in differs}
    if "recipe" in changed:
        raise UserError(
            f"{run / 'recipe.toml'} was changed since {since}, or the file of a verifier that it "
            "names.",
            "put it back, or train the changed recipe as another run",
        )
    if "model" in changed:
        raise UserError(
            f"The model of {run / 'recipe.toml'} is not the one that the run began with, "
            f"{began.model.name}: its weights or its config.json differ.",
            "set model to the path of that one, or train this one as another run",
        )
    if part := next((part for part in PROBLEMS if part in changed), None):
        old, new = (_size(parts[part]) for parts in (before, now))
        raise UserError(
            f"The {PROBLEMS[part]} changed since {run} began: {old}, and now {new}.",
            "put the data back as it was, or train in another folder: --run OTHER",
        )


def _size(part: Mapping[str, Any] | None) -> str:
    return f"{part['problems']:,} of checksum {part['sha256'][:12]}" if part else "not listed"


def of_recipe(recipe: Mapping[str, Any], began: Environment | None = None) -> str:
    """Return the SHA-256 of those keys of a run's recipe, as its file has them, that decide its
    numbers: the recorded one, if they are the same with the steps that the run had before it was
    extended. A verifier's file counts by its content."""
    data, began = _deciding(recipe), began or Environment()
    earlier = {digest({**data, "steps": steps}) for steps in began.extended_from}
    return began.recipe_sha256 if began.recipe_sha256 in earlier else digest(data)


def of_problems(data: Mapping[str, Any]) -> Origin:
    """Return the problems to train and to evaluate on, and examples, as environment.json has
    them."""
    return {part: data[part] for part in PROBLEMS if part in data}


def _deciding(recipe: Mapping[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(dict(recipe))
    engine = data.get("engine", {})
    for key in MAY_CHANGE:
        data.pop(key, None)
    # the context decides LongRoPE's frequencies
    decides = {
        "context": engine.get("context"),
        "vllm": engine.get("sampler") == "vllm",
    }
    if any(decides.values()):
        data["engine"] = {key: value for key, value in decides.items() if value}
    if _is_path(str(data["task"])):
        del data["task"]
    evaluation: dict[str, Any] = data.get("eval", {})
    evaluation.pop("data", None)
    if sft := data.get("sft"):
        sft["data"] = "data" in sft  # which examples has another checksum
    if _is_path(str(evaluation.get("bench"))):
        del evaluation["bench"]
    for table, key in product((data.get("reward"), evaluation), ("verifier", "functions")):
        if isinstance(table, dict) and key in table:
            names = cast(dict[str, Any], table)
            is_list = isinstance(names[key], list)
            names[key] = [*map(_by_content, names[key])] if is_list else _by_content(names[key])
    return data


def _by_content(verifier: object) -> str:
    """Return a verifier of a file named by what the file holds; any other as it is."""
    place, _, function = str(verifier).rpartition(":")
    if not place.endswith(".py"):
        return str(verifier)
    content = hashlib.sha256(read_bytes(Path(place))).hexdigest() if Path(place).is_file() else ""
    return f"{content}:{function}"


def _is_path(name: str) -> bool:
    """Return whether a task or benchmark is a file or folder of data, also if it was moved."""
    return is_file_name(name) or Path(name).is_absolute()


def of_model(model: str) -> dict[str, str]:
    """Return the part of a model (see `checksums.identity`); none without a folder."""
    sha256 = identity(locate(model, trains=True))
    return {"model": sha256} if sha256 else {}


def check_engine(
    run: Path, began: Environment, engine: Engine, *, adapters: bool, option: str
) -> str | None:
    """Return a sentence on the precision or engine that differs from the run's first one; None
    where none does. UserError where a run of adapters changes its engine, since each engine has its
    own layout of adapters; `option` is how the hint asks for an engine."""
    now = engine.describe()
    before = {**now, **began.engine.to_json()}
    if adapters and before["engine"] != now["engine"]:
        raise UserError(
            f"{run} began with {before['engine']}, and cannot continue with {now['engine']}: each "
            "engine has its own layout for adapters.",
            f"{option}{before['engine']}",
        )
    names = ("engine", "dtype", "bits", "kernels")
    differs = difference(*({name: parts.get(name) for name in names} for parts in (before, now)))
    return differs and (
        f"{run} began with {differs}: its numbers will differ from those of a run that was not "
        "stopped."
    )
