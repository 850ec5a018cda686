"""What the shell offers for recipes and runs, beside click's own completion of commands and
options."""

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]


def recipes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The shipped recipes, and files."""
    from ictcli.recipe import shipped_recipes

    names = [name for name in shipped_recipes() if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The runs in runs/, and folders."""
    found = sorted(str(recipe.parent) for recipe in Path("runs").glob("*/recipe.toml"))
    names = [name for name in found if name.startswith(incomplete) and name.isprintable()]
    return [CompletionItem(incomplete, type="dir"), *map(CompletionItem, names)]


RUN: Any = {"type": click.Path(path_type=Path), "shell_complete": runs}
"""Of a click argument that is a run folder, or several."""
