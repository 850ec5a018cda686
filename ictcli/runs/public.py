"""What of a run's names and settings others may see: no path of this machine, no text of a data
set, and not the words it was started by."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from ictcli.runs.list import recipe_of
from ictcli.runs.read import Table, number, read_record, within
from ictcli.runs.records import Environment

SOURCE = ("path", "file", "config", "split", "revision", "sha256")
"""Of where problems come from."""
PARTS = ("train", "heldout")


def public_name(name: str, run: Path | None = None) -> str:
    """A name for others: of a file or folder on this machine its last part alone. `run` is a run's
    folder, to which and to whose parents a name may be relative."""
    if PureWindowsPath(name).drive:
        return PureWindowsPath(name).name
    return Path(name).name if name.startswith(("/", "~", ".")) or _is_here(name, run) else name


def is_public(model: str, run: Path | None = None) -> bool:
    """Whether a model's name is one of the hub's, as far as the name and this machine tell."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+", model) is not None and not (
        model.startswith(".") or _is_here(model, run)
    )


def _is_here(name: str, run: Path | None) -> bool:
    """Relative to the working directory, to the run's folder or one above it, or beside the recipe
    that the run was started by."""
    places = [Path()]
    if run is not None:
        places += [run.resolve(), *run.resolve().parents]
        places += [place / _recipe_s(run) for place in list(places)]
    try:
        return any((place / name).exists() for place in places)
    except (OSError, ValueError):  # too long, or with a null: no name of a file
        return False


def _recipe_s(run: Path) -> str:
    """The folder of the recipe as it was typed."""
    environment = read_record(run / "environment.json", Environment, strict=False)
    return str(Path(recipe_of(environment)).parent)


def base_of(recipe: Mapping[str, Any], environment: object) -> str:
    """The model that a run trained: as it was recorded at its beginning, else as its recipe
    says."""
    recorded = within(environment, "model", "name")
    return recorded if isinstance(recorded, str) and recorded else str(recipe.get("model", ""))


def public_data(environment: object) -> Table:
    """What environment.json says of the data, by dotted name: its source, checksums and counts."""
    data = within(environment, "data")
    found: Table = {}
    for key in SOURCE:
        value = within(data, key)
        if isinstance(value, str) and value:
            found[key] = public_name(value)
        elif key == "config" and isinstance(value, list):
            found[key] = ", ".join(str(one) for one in cast(list[object], value))
    for part in PARTS:
        if (problems := number(within(data, part, "problems"))) is not None:
            found[f"{part}.problems"] = int(problems)
        if isinstance(digest := within(data, part, "sha256"), str):
            found[f"{part}.sha256"] = digest
    left = within(data, "left_out")
    for key, value in (cast(Table, left) if isinstance(left, dict) else {}).items():
        if re.fullmatch(r"\w+", key) and (out := number(value)) is not None:
            found[f"left_out.{key}"] = int(out)
    return found


def public_environment(environment: Mapping[str, Any]) -> Table:
    """environment.json for a tracker: without the command, and of the data what `public_data`
    gives."""
    kept = {key: value for key, value in environment.items() if key not in ("command", "data")}
    return {**cast(Table, _without_paths(kept)), "data": public_data(environment)}


def public_recipe(recipe: Mapping[str, Any]) -> Table:
    """A recipe for a tracker: of examples in the prompt how many there are, and their SHA-256."""
    found = cast(Table, _without_paths(dict(recipe)))
    for key in ("model", "task"):
        if isinstance(recipe.get(key), str):
            found[key] = public_name(recipe[key])
    prompt = recipe.get("prompt")
    if isinstance(prompt, dict) and (examples := cast(Table, prompt).get("examples")):
        text = json.dumps(examples, sort_keys=True).encode()
        shown = {"count": len(examples), "sha256": hashlib.sha256(text).hexdigest()}
        found["prompt"] = {**found["prompt"], "examples": shown}
    return found


def _without_paths(value: Any) -> Any:
    """The same tables and lists, of absolute paths the last part."""
    if isinstance(value, dict):
        return {key: _without_paths(one) for key, one in cast(Table, value).items()}
    if isinstance(value, list | tuple):
        return [_without_paths(one) for one in cast(list[object], value)]
    if isinstance(value, str) and "\n" not in value:
        absolute = value.startswith(("/", "~")) or PureWindowsPath(value).is_absolute()
        return public_name(value) if absolute else value
    return value
