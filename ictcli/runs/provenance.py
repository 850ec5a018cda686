"""Provenance: resuming needs the recipe, model and data that the run began with."""

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ictcli.engine import LIBRARIES, Engine, choose_backend
from ictcli.engine.checksums import identity
from ictcli.engine.models import locate
from ictcli.errors import UserError
from ictcli.files.reading import read_bytes
from ictcli.recipe.tables import EngineSettings
from ictcli.runs.read import read_environment
from ictcli.runs.records import Environment


def recipe_hash(recipe: Mapping[str, Any], steps: int | None = None) -> str:
    """SHA-256 of those keys of a run's recipe, as its file has them, that decide its numbers.
    Paths, the engine but its context, alarms, trackers and checkpoints may change between two
    processes of a run.
    Data files have checksums of their own (`tasks.prepare.check_unchanged`); a verifier's file
    counts by its content.
    `steps` takes the place of the recipe's."""
    from ictcli.rows import is_file_name

    data = copy.deepcopy(dict(recipe))
    if steps is not None:
        data["steps"] = steps
    context = data.get("engine", {}).get("context")
    for key in ("model", "plugins", "engine", "checkpoint", "alarms", "log", "data"):
        data.pop(key, None)
    if context:  # it decides LongRoPE's frequencies
        data["engine"] = {"context": context}
    if is_file_name(str(data["task"])):
        del data["task"]
    evaluation: dict[str, Any] = data.get("eval", {})
    evaluation.pop("data", None)
    if is_file_name(str(evaluation.get("bench"))):
        del evaluation["bench"]
    verifier = verifier_file(data)
    if verifier is not None:
        file, function = verifier
        content = hashlib.sha256(read_bytes(file)).hexdigest() if file.is_file() else ""
        data["reward"] = {**data["reward"], "verifier": f"{content}:{function}"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def verifier_file(data: Mapping[str, Any]) -> tuple[Path, str] | None:
    """The file and the function of a recipe whose verifier is `file.py:function`."""
    reward: Any = data.get("reward")
    verifier = cast(Any, reward).get("verifier") if isinstance(reward, dict) else None
    if not isinstance(verifier, str) or ".py:" not in verifier:
        return None
    path, _, function = verifier.rpartition(":")
    return Path(path), function


def check_recipe(run: Path, recipe: Mapping[str, Any], recorded: str, since: str) -> None:
    """UserError where the hash of a run's recipe differs from the recorded one, also with the steps
    that the run had before it was extended."""
    earlier = read_environment(run).extended_from
    if recorded in (recipe_hash(recipe, steps) for steps in (None, *earlier)):
        return
    file, verifier = run / "recipe.toml", verifier_file(recipe)
    changed = f"{file} or {verifier[0]}" if verifier else f"{file}"
    raise UserError(
        f"{changed} was changed since {since}.",
        "put it back, or train the changed recipe as a run of its own",
    )


def identity_of(model: str, settings: EngineSettings) -> str:
    """A checksum of a model (see `checksums.identity`); empty for engines of others, which load
    models in their own ways."""
    ours = choose_backend(settings.backend) in LIBRARIES
    return identity(locate(model)) if ours else ""


def check_model(run: Path, began: Environment, now: str) -> None:
    """UserError where a run began with another model than this one (see `identity_of`)."""
    if now and (began.model.sha256 or now) != now:
        raise UserError(
            f"The model of {run / 'recipe.toml'} is not the one that the run began with, "
            f"{began.model.name}: its weights or its config.json differ.",
            "set model to that one, wherever it lies now, or train this one as a run of its own",
        )


def check_engine(
    run: Path, began: Environment, engine: Engine, *, adapters: bool, option: str
) -> str:
    """A sentence on the precision or engine that differs from the run's first one; empty where
    none does. UserError where a run of adapters changes its engine, since each engine has its own
    layout of adapters; `option` is how the hint asks for an engine."""
    now = engine.describe()
    before = {**now, **began.engine.to_json()}
    if adapters and before["engine"] != now["engine"]:
        raise UserError(
            f"{run} began with {before['engine']}, and cannot go on with {now['engine']}: each "
            "engine has a layout of its own for adapters.",
            f"{option}{before['engine']}",
        )
    if all(now.get(key) == before.get(key) for key in ("engine", "dtype", "bits")):
        return ""
    return (
        f"{run} began with {_words(before)}, and goes on with {_words(now)}: its numbers will "
        "differ from those of a run that was not stopped."
    )


def _words(engine: Mapping[str, Any]) -> str:
    bits = "".join(f", a model of {number} bits" for number in engine.get("bits") or ())
    return f"{engine.get('engine')} in {engine.get('dtype')}{bits}"
