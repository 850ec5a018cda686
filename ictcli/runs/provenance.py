"""What a run began with, and whether it goes on with the same: recipe, model and engine."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ictcli.engine import LIBRARIES, Engine, choose_backend
from ictcli.engine.models import identity, locate
from ictcli.errors import UserError
from ictcli.recipe.settings import EngineSettings


def recipe_hash(run: Path) -> str:
    """SHA-256 of what in a run's recipe decides its numbers: where its files lie, what holds them
    and who is warned may change between two sittings. Of the problems in files the checksums are
    compared (`tasks.prepare.check_unchanged`); a verifier's file counts by its content."""
    from ictcli.rows import is_file_name

    data = tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))
    for key in ("model", "plugins", "engine", "checkpoint", "alarms", "log", "data"):
        data.pop(key, None)
    if is_file_name(str(data["task"])):
        del data["task"]
    examined: dict[str, Any] = data.get("eval", {})
    examined.pop("data", None)
    if is_file_name(str(examined.get("bench"))):
        del examined["bench"]
    verifier = verifier_file(data)
    if verifier is not None:
        file, function = verifier
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        data["reward"] = {**data["reward"], "verifier": f"{content}:{function}"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def verifier_file(data: Mapping[str, Any]) -> tuple[Path, str] | None:
    """The file and the function of a recipe whose verifier is `file.py:function`."""
    reward: Any = data.get("reward")
    named = cast(Any, reward).get("verifier") if isinstance(reward, dict) else None
    if not isinstance(named, str) or ".py:" not in named:
        return None
    path, _, function = named.rpartition(":")
    return Path(path), function


def check_recipe(run: Path, recorded: str, now: str, since: str) -> None:
    """UserError where the hash of a recipe is another than the one that was recorded."""
    if recorded == now:
        return
    file = run / "recipe.toml"
    verifier = verifier_file(tomllib.loads(file.read_text(encoding="utf-8")))
    changed = f"{file} or {verifier[0]}" if verifier else f"{file}"
    raise UserError(
        f"{changed} was changed since {since}.",
        "put it back, or train the changed recipe as a run of its own",
    )


def identity_of(model: str, settings: EngineSettings) -> str:
    """Of a model that is loaded (see `models.identity`); empty where only its engine knows it."""
    known = choose_backend(settings.backend) in LIBRARIES
    return identity(locate(model)) if known else ""


def check_model(run: Path, recorded: Mapping[str, Any], found: str) -> None:
    """UserError where a run began with another model than this one (see `identity_of`), by its
    environment.json."""
    model = recorded.get("model", {})
    if found and model.get("sha256", found) != found:
        raise UserError(
            f"The model of {run / 'recipe.toml'} is not the one that the run began with, "
            f"{model['name']}: its weights or its config.json differ.",
            "set model to that one, wherever it lies now, or train this one as a run of its own",
        )


def check_engine(
    run: Path, recorded: Mapping[str, Any], engine: Engine, *, adapters: bool, option: str
) -> str:
    """What differs in the precision or the engine that a run began with by its environment.json,
    as a sentence; empty where nothing does. UserError where it trained adapters, of which each
    engine has a layout of its own, with another one; `option` is how that one is asked for."""
    began: dict[str, Any] = recorded.get("engine", {})
    now = engine.describe()
    own = began.get("engine", now["engine"])
    if adapters and own != now["engine"]:
        raise UserError(
            f"{run} began with {own}, and cannot go on with {now['engine']}: each engine has a "
            "layout of its own for adapters.",
            f"{option}{own}",
        )
    if all(now.get(key) == began.get(key, now.get(key)) for key in ("engine", "dtype", "bits")):
        return ""
    return (
        f"{run} began with {_told(began)}, and goes on with {_told(now)}: its numbers will differ "
        "from those of a run that was not stopped."
    )


def _told(engine: Mapping[str, Any]) -> str:
    bits = "".join(f", a model of {number} bits" for number in engine.get("bits") or ())
    return f"{engine.get('engine')} in {engine.get('dtype')}{bits}"
