"""The public name, origin and licence of the base model of a run."""

import contextlib
import re
from pathlib import Path
from typing import Any, cast

from ictcli.engine.models import BUILTIN, snapshot
from ictcli.files.reading import parse_json, read_text
from ictcli.runs import is_run
from ictcli.runs.public import base_of, is_public, place_of, public_name
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import RecipeRecord
from ictcli.runs.trained import run_of

DEEPEST = 8
"""Maximum number of runs to follow back to the original base model."""


def names_of(model: str, run: Path, deep: int = DEEPEST) -> tuple[str, str | None]:
    """Return a base model's public name, and the model that it was made from (None if unknown),
    from the hub's cache, a run, a model card or a config. For `run` see `public_name`."""
    if cached := re.search(r"models--([\w.-]+?)--([\w.-]+)/snapshots/", model):
        return "/".join(cached.groups()), None
    place = place_of(model, run) if model and not is_public(model, run) else None
    if place is None:
        return public_name(model, run), None
    folder = place.resolve()
    trained = run_of(folder)
    if trained is None or not deep:
        return folder.name, _made_from(folder)
    recipe = read_record(trained / "recipe.toml", RecipeRecord, strict=False) or RecipeRecord()
    base = base_of(recipe.to_json(), read_environment(trained))
    name, origin = names_of(base, trained, deep - 1)
    return trained.name, origin or name or None


def _made_from(folder: Path) -> str | None:
    """Return the base model named in a model's card or config; None unless it is a hub id."""
    config: Any = {}
    with contextlib.suppress(OSError, ValueError):
        config = parse_json(read_text(folder / "config.json"))
    base = _header(folder).get("base_model") or cast(dict[str, Any], config).get("_name_or_path")
    name: Any = [*cast(list[Any], base), None][0] if isinstance(base, list) else base
    return name if isinstance(name, str) and is_public(name) else None


def files_of(base: str, run: Path | None = None) -> Path | None:
    """Return the folder of a base model's files; None if they are not on this machine."""
    place = BUILTIN.get(base.removeprefix("builtin:")) or place_of(base, run)
    if place is None:
        return snapshot(base) if is_public(base) else None
    return place / "model" if is_run(place) else place


def license_of(base: str, run: Path | None = None) -> str | None:
    """Return the licence in the base model's card, or ictcli's for a built-in model; else None."""
    if base.startswith("builtin:"):
        return "apache-2.0"
    folder = files_of(base, run)
    name = _header(folder).get("license") if folder else None
    return name if isinstance(name, str) else None


def chats(base: str, run: Path | None = None) -> bool:
    """Return whether the base model has a chat template; False if it is not on this machine."""
    folder = files_of(base, run)
    if folder is None or (folder / "chat_template.jinja").is_file():
        return folder is not None
    with contextlib.suppress(OSError, ValueError):
        return '"chat_template"' in read_text(folder / "tokenizer_config.json")
    return False


def _header(folder: Path) -> dict[str, Any]:
    from huggingface_hub import repocard

    try:
        return cast(Any, repocard).metadata_load(folder / "README.md") or {}
    except Exception:  # somebody else's file, which may not be valid YAML
        return {}
