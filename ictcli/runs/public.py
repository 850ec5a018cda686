"""The part of a run's settings that may be published: without paths of this machine, text of data
sets, and the command line."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ictcli.runs.read import Table
from ictcli.runs.records import DataRecord, Environment

SOURCE = (
    *("path", "file", "config", "split", "revision", "generator", "version", "sha256"),
    "verifier",
)


def public_name(name: str, run: Path | None = None) -> str:
    """Return a name for publication: for a file or folder on this machine only the last part of its
    path. The name may be relative to the folder `run` or its parents."""
    return Path(name).name if name.startswith(("/", "~", ".")) or place_of(name, run) else name


def is_public(model: str, run: Path | None = None) -> bool:
    """Return whether a model is probably on the hub: OWNER/NAME, and no path on this machine."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+", model) is not None and not (
        model.startswith(".") or place_of(model, run) is not None
    )


def place_of(name: str, run: Path | None) -> Path | None:
    """Return the path `name` where it exists: in the working directory, or else in the run's folder
    or one of its parents. None if it does not exist in any of them."""
    folders = [Path(), *([run.resolve(), *run.resolve().parents] if run else [])]
    try:
        return next((folder / name for folder in folders if (folder / name).exists()), None)
    except (OSError, ValueError):  # a name too long, or with a null byte, names no file
        return None


def base_of(recipe: Mapping[str, Any], environment: Environment) -> str:
    """Return the name of a run's base model, from environment.json or else from its recipe."""
    return environment.model.name or str(recipe.get("model", ""))


def public_data(data: DataRecord) -> Table:
    """Return the source, checksums and numbers of problems of a run's data, by dotted name."""
    public: Table = {}
    for key in SOURCE:
        value = getattr(data, key)
        if value:
            public[key] = public_name(value) if isinstance(value, str) else ", ".join(value)
    for name, seed in (data.seeds or {}).items():
        public[f"{name}.seed"] = seed
    for name, part in (("train", data.train), ("heldout", data.heldout)):
        if part is not None:
            public |= {f"{name}.problems": part.problems, f"{name}.sha256": part.sha256}
    for key, count in data.left_out.items():
        if re.fullmatch(r"\w+", key):
            public[f"left_out.{key}"] = count
    return public


def public_environment(environment: Environment) -> Table:
    """Return environment.json for a tracker: without the command, and with `public_data`."""
    table = environment.model_dump(exclude_unset=True, exclude={"command", "data"})
    return {**cast(Table, _without_paths(table)), "data": public_data(environment.data)}


def public_recipe(recipe: Mapping[str, Any]) -> Table:
    """Return a recipe for a tracker; examples are replaced by their number and SHA-256."""
    public = cast(Table, _without_paths(dict(recipe)))
    for key in ("model", "task"):
        if isinstance(recipe.get(key), str):
            public[key] = public_name(recipe[key])
    prompt = recipe.get("prompt")
    if isinstance(prompt, dict) and (examples := cast(Table, prompt).get("examples")):
        text = json.dumps(examples, sort_keys=True).encode()
        digest = {"count": len(examples), "sha256": hashlib.sha256(text).hexdigest()}
        public["prompt"] = {**public["prompt"], "examples": digest}
    return public


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(item) for key, item in cast(Table, value).items()}
    if isinstance(value, list | tuple):
        return [_without_paths(item) for item in cast(list[object], value)]
    if isinstance(value, str) and "\n" not in value:
        absolute = value.startswith(("/", "~"))
        return public_name(value) if absolute else value
    return value
