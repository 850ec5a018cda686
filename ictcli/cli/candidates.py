"""What the shell offers to complete: recipes, settings, methods, benchmarks, runs. No engine is
loaded.

The functions are for `shell_complete` of click's parameters.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click import Context, Parameter
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]
Complete = Callable[[Context, Parameter, str], Items]


def _of(names: Callable[[], Iterable[str]], kind: str = "", *, listed: bool = False) -> Complete:
    """Offers names, and paths of a kind; with `listed` the last of several with commas between."""

    def complete(ctx: Context, param: Parameter, incomplete: str) -> Items:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        taken = before.split(",")
        found = _items((name for name in names() if name not in taken), last, kind)
        return [CompletionItem(f"{before}{comma}{item.value}", type=item.type) for item in found]

    return complete


def _recipes() -> Iterable[str]:
    from ictcli.recipe import shipped_recipes

    return shipped_recipes()


def _studies() -> Iterable[str]:
    from ictcli.recipe import shipped_studies

    return shipped_studies()


def _keys() -> Iterable[str]:
    from ictcli.recipe import recipe_keys

    return recipe_keys()


def _methods() -> Iterable[str]:
    from ictcli.algorithm.methods import METHODS

    return METHODS


def _benchmarks() -> Iterable[str]:
    from ictcli.tasks import BENCHMARKS

    return BENCHMARKS


def _engines() -> Iterable[str]:
    from ictcli.cli.engines import engine_names

    return engine_names()


recipes = _of(_recipes, "file")
recipes_and_studies = _of(lambda: [*_recipes(), *_studies()], "file")
downloads = _of(lambda: [*_recipes(), *_benchmarks()], "file")
keys = _of(_keys)
methods = _of(_methods, listed=True)
benchmarks = _of(_benchmarks, "file", listed=True)
engines = _of(_engines)


def settings(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Keys of a recipe, a table at a time; after `=` the values that a key can have."""
    key, equals, value = incomplete.partition("=")
    if equals:
        found = _items(_values(key), value, "file")
        return [CompletionItem(f"{key}={item.value}", type=item.type) for item in found]
    keys = [f"{name}=" for name in (*_keys(), "method", "reward")]
    typed = len(incomplete)
    ends = (name.find(".", typed) + 1 or len(name) for name in keys)
    return _items((name[:end] for name, end in zip(keys, ends, strict=True)), incomplete)


def runs(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Run folders here, in runs/ and below what was typed; and folders."""
    typed = Path(incomplete)
    inside = typed if incomplete.endswith("/") else typed.parent
    places = (Path("runs"), inside.expanduser())
    found = [recipe.parent for place in places for recipe in place.glob("*/recipe.toml")]
    return _items(sorted(map(str, found)), incomplete, "dir")


RUN: Any = {"type": click.Path(path_type=Path), "shell_complete": runs}
"""Of a click argument that is a run folder, or several."""


def models(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Models and runs, then settings."""
    if "=" in incomplete:
        return settings(ctx, param, incomplete)
    return [*runs(ctx, param, incomplete), *_items(_built_in(), incomplete)]


def _built_in() -> Iterable[str]:
    from ictcli.engine.models import BUILTIN

    return (f"builtin:{name}" for name in BUILTIN)


def _values(key: str) -> Iterable[str]:
    """Values of a key, where they are few and have names."""
    if key in ("method", "method.name"):
        return _methods()
    if key in ("reward", "reward.verifier"):
        from ictcli.rewards.verifiers import OPTIONAL, VERIFIERS

        return [*VERIFIERS, *OPTIONAL]
    if key == "task":
        from ictcli.tasks import TASKS

        return TASKS
    if key == "eval.bench":
        return _benchmarks()
    return _built_in() if key == "model" else _choices(key)


def _choices(key: str) -> Iterable[str]:
    """Values of a key that is a choice or yes and no."""
    from ictcli.recipe import Recipe

    kind: Any = Recipe
    for part in key.split("."):
        fields = getattr(kind, "model_fields", {})
        kind = fields[part].annotation if part in fields else None
    if kind is bool:
        return ("true", "false")
    return map(str, get_args(kind)) if get_origin(kind) is Literal else ()


def _items(values: Iterable[str], incomplete: str, kind: str = "") -> Items:
    """The values that begin as typed; before them, for the shell, a kind of path."""
    paths = [CompletionItem(incomplete, type=kind)] if kind else []
    fitting = (value for value in dict.fromkeys(values) if value.startswith(incomplete))
    return [*paths, *(CompletionItem(value) for value in fitting if value.isprintable())]
