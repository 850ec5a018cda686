"""What the shell offers to complete: recipes, settings, methods, benchmarks, runs. No engine is
loaded.

The functions are for `shell_complete` of click's parameters.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from click import Context, Parameter
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]


def recipes(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Shipped recipes, and files."""
    from ictcli.recipe import shipped_recipes

    return _items(shipped_recipes(), incomplete, "file")


def recipes_and_studies(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Shipped recipes and studies, and files."""
    from ictcli.recipe import shipped_recipes, shipped_studies

    return _items([*shipped_recipes(), *shipped_studies()], incomplete, "file")


def settings(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Keys of a recipe, a table at a time; behind `=` the values that a key can have."""
    from ictcli.recipe import recipe_keys

    key, equals, value = incomplete.partition("=")
    if equals:
        found = _items(_values(key), value, "file")
        return [CompletionItem(f"{key}={item.value}", type=item.type) for item in found]
    keys = [f"{name}=" for name in (*recipe_keys(), "method", "reward")]
    typed = len(incomplete)
    ends = (name.find(".", typed) + 1 or len(name) for name in keys)
    return _items((name[:end] for name, end in zip(keys, ends, strict=True)), incomplete)


def keys(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Keys of a recipe."""
    from ictcli.recipe import recipe_keys

    return _items(recipe_keys(), incomplete)


def runs(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Run folders here, in runs/ and below what was typed; and folders."""
    typed = Path(incomplete)
    inside = typed if incomplete.endswith("/") else typed.parent
    found = [recipe.parent for place in (Path("runs"), inside) for recipe in _recipes_in(place)]
    return _items(sorted(map(str, found)), incomplete, "dir")


def _recipes_in(folder: Path) -> Iterable[Path]:
    return folder.expanduser().glob("*/recipe.toml")


def downloads(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Recipes and benchmarks."""
    from ictcli.recipe import shipped_recipes
    from ictcli.tasks import BENCHMARKS

    return _items([*shipped_recipes(), *BENCHMARKS], incomplete, "file")


def models(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Models and runs, then settings."""
    if "=" in incomplete:
        return settings(ctx, param, incomplete)
    return [*runs(ctx, param, incomplete), *_items(_built_in(), incomplete)]


def methods(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Methods, with commas between."""
    from ictcli.algorithm.methods import METHODS

    return _listed(METHODS, incomplete)


def benchmarks(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Benchmarks, with commas between; and files."""
    from ictcli.tasks import BENCHMARKS

    return _listed(BENCHMARKS, incomplete, "file")


def engines(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """The engines, those that packages add included."""
    from ictcli.cli.engines import engine_names

    return _items(engine_names(), incomplete)


def _built_in() -> Iterable[str]:
    from ictcli.engine.models import BUILTIN

    return (f"builtin:{name}" for name in BUILTIN)


def _values(key: str) -> Iterable[str]:
    """Values of a key, where they are few and have names."""
    if key in ("method", "method.name"):
        from ictcli.algorithm.methods import METHODS

        return METHODS
    if key in ("reward", "reward.verifier"):
        from ictcli.rewards.verifiers import OPTIONAL, VERIFIERS

        return [*VERIFIERS, *OPTIONAL]
    if key in ("task", "eval.bench"):
        from ictcli.tasks import BENCHMARKS, TASKS

        return TASKS if key == "task" else BENCHMARKS
    if key == "model":
        return _built_in()
    return _choices(key)


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


def _listed(names: Iterable[str], incomplete: str, kind: str = "") -> Items:
    """The last of several names with commas between."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    found = _items((name for name in names if name not in taken), last, kind)
    return [CompletionItem(f"{before}{comma}{item.value}", type=item.type) for item in found]


def _items(values: Iterable[str], incomplete: str, kind: str = "") -> Items:
    """The values that begin as typed; before them, for the shell, a kind of path."""
    paths = [CompletionItem(incomplete, type=kind)] if kind else []
    fitting = (value for value in dict.fromkeys(values) if value.startswith(incomplete))
    return [*paths, *(CompletionItem(value) for value in fitting if value.isprintable())]
