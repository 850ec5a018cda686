"""Whether a run goes on with what it began with: its recipe, model and problems.

environment.json records them by checksum; where they lie may change. Parts that only one of two
fingerprints has are not compared: older versions recorded fewer, and a problem is looked at only
where it can be had.
"""

import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ictcli.engine import LIBRARIES, Engine, choose_backend
from ictcli.engine.checksums import identity
from ictcli.engine.models import locate
from ictcli.errors import UserError
from ictcli.files.fingerprint import Fingerprint, digest
from ictcli.files.reading import read_bytes
from ictcli.recipe.tables import EngineSettings
from ictcli.rows import is_file_name
from ictcli.runs.read import read_record
from ictcli.runs.records import Environment, RecipeRecord

PARTS = ("train", "heldout", "sft")
"""Problems whose checksums are recorded."""
MAY_CHANGE = ("model", "plugins", "engine", "checkpoint", "alarms", "log", "data")
"""Keys that may differ between two processes of a run; the model and the data have checksums."""


def check_same(
    run: Path, began: Environment, now: Fingerprint, since: str = "the run began"
) -> None:
    """UserError, with a sentence on what differs, where a part that both have does."""
    checksums = {"recipe": began.recipe_sha256, "model": began.model.sha256}
    before: dict[str, Any] = {part: sha256 for part, sha256 in checksums.items() if sha256}
    before |= of_problems(began.data.to_json())
    differs = [part for part in before if part in now and before[part] != now[part]]
    if "recipe" in differs:
        file = run / "recipe.toml"
        recipe = read_record(file, RecipeRecord, strict=False) or RecipeRecord()
        files = dict.fromkeys(name.rpartition(":")[0] for name in _verifiers(recipe.to_json()))
        changed = " or ".join([str(file), *(place for place in files if place.endswith(".py"))])
        raise UserError(
            f"{changed} was changed since {since}.",
            "put it back, or train the changed recipe as a run of its own",
        )
    if "model" in differs:
        raise UserError(
            f"The model of {run / 'recipe.toml'} is not the one that the run began with, "
            f"{began.model.name}: its weights or its config.json differ.",
            "set model to that one, wherever it lies now, or train this one as a run of its own",
        )
    for part in differs:
        what = {"sft": "examples of sft.data", "heldout": "problems to evaluate on"}
        old, new = map(_size, (before[part], now[part]))
        raise UserError(
            f"The {what.get(part, 'problems to train on')} changed since {run} began: {old}, and "
            f"now {new}.",
            "put the data back as it was, or train in another folder: --run OTHER",
        )


def _size(part: Mapping[str, Any] | None) -> str:
    return f"{part['problems']:,} of checksum {part['sha256'][:12]}" if part else "not listed"


def of_recipe(recipe: Mapping[str, Any], began: Environment | None = None) -> str:
    """SHA-256 of those keys of a run's recipe, as its file has them, that decide its numbers: the
    one that the run began with, if they are the same with the steps that it had before it was
    extended. A verifier's file counts by its content."""
    data, began = _deciding(recipe), began or Environment()
    now = digest(data)
    earlier = (digest({**data, "steps": steps}) for steps in began.extended_from)
    recorded = began.recipe_sha256
    return recorded if recorded and recorded != now and recorded in earlier else now


def of_problems(data: Mapping[str, Any]) -> dict[str, Any]:
    """The problems to train and to evaluate on, and examples, as environment.json has them."""
    return {part: data[part] for part in PARTS if part in data}


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
        sft["data"] = "data" in sft  # which examples has a checksum of its own
    if _is_path(str(evaluation.get("bench"))):
        del evaluation["bench"]
    for table in (data.get("reward"), evaluation):
        if isinstance(table, dict):
            judge = cast(dict[str, Any], table)
            if isinstance(named := judge.get("verifier"), str):
                judge["verifier"] = _by_content(named)
            if isinstance(names := judge.get("functions"), list):
                judge["functions"] = [_by_content(str(name)) for name in cast(list[Any], names)]
    return data


def _by_content(verifier: str) -> str:
    """A verifier of a file, named by what the file holds; any other as it is."""
    place, _, function = verifier.rpartition(":")
    if not place.endswith(".py"):
        return verifier
    content = hashlib.sha256(read_bytes(Path(place))).hexdigest() if Path(place).is_file() else ""
    return f"{content}:{function}"


def _verifiers(recipe: Mapping[str, Any]) -> list[str]:
    tables = (recipe.get("reward"), recipe.get("eval"))
    found = [cast(dict[str, Any], table) for table in tables if isinstance(table, dict)]
    listed = [table.get("functions") for table in found]
    names = [name for each in listed if isinstance(each, list) for name in cast(list[Any], each)]
    return [name for name in (*(t.get("verifier") for t in found), *names) if isinstance(name, str)]


def _is_path(name: str) -> bool:
    """Whether a task or benchmark is a file or folder of data, wherever that lies now."""
    return is_file_name(name) or Path(name).is_absolute()


def of_model(model: str, settings: EngineSettings) -> dict[str, str]:
    """The part of a model (see `checksums.identity`); none for engines of others, which load models
    in their own ways, and for models without a folder."""
    ours = choose_backend(settings.backend) in LIBRARIES
    sha256 = identity(locate(model, trains=True)) if ours else ""
    return {"model": sha256} if sha256 else {}


def check_engine(
    run: Path, began: Environment, engine: Engine, *, adapters: bool, option: str
) -> str:
    """A sentence on the precision or engine that differs from the run's first one; empty where
    none does. UserError where a run of adapters changes its engine, since each engine has its own
    layout of adapters; `option` is how the hint asks for an engine."""
    now = engine.describe()
    before = {**now, **began.engine.to_json()}
    before["engine"] = {"trl": "torch"}.get(before["engine"], before["engine"])  # of version 0.1
    if adapters and before["engine"] != now["engine"]:
        raise UserError(
            f"{run} began with {before['engine']}, and cannot go on with {now['engine']}: each "
            "engine has a layout of its own for adapters.",
            f"{option}{before['engine']}",
        )
    if all(now.get(key) == before.get(key) for key in ("engine", "dtype", "bits", "kernels")):
        return ""
    return (
        f"{run} began with {_words(before)}, and goes on with {_words(now)}: its numbers will "
        "differ from those of a run that was not stopped."
    )


def _words(engine: Mapping[str, Any]) -> str:
    bits = "".join(f", a model of {number} bits" for number in engine.get("bits") or ())
    kernels = f", kernels {name}" if (name := engine.get("kernels")) else ""
    return f"{engine.get('engine')} in {engine.get('dtype')}{bits}{kernels}"
