"""ictcli recipes: list, show and copy the shipped recipes, and explain the keys."""

import json
from pathlib import Path

import click

from ictcli.cli import JSON, completion
from ictcli.errors import UserError
from ictcli.text import command as typed


@click.group("recipes")
def command() -> None:
    """List, show and copy recipes, and explain their keys."""


@command.command("ls")
@JSON
def ls(as_json: bool) -> None:
    """List the recipes that come with ictcli."""
    from ictcli.console.table import print_records
    from ictcli.recipe import shipped_recipes

    records = [
        {"recipe": name, "about": path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")}
        for name, path in shipped_recipes().items()
    ]
    print_records(records, as_json=as_json)


@command.command("show")
@click.argument("name", shell_complete=completion.recipes)
def show(name: str) -> None:
    """Print a recipe."""
    from ictcli.console.lines import output
    from ictcli.recipe import find_recipe, recipe_text

    output(*recipe_text(find_recipe(name)).removesuffix("\n").split("\n"))


@command.command("keys")
@click.argument("parts", metavar="[PART]...", nargs=-1)
@JSON
def keys(parts: tuple[str, ...], as_json: bool) -> None:
    """Explain the keys whose names contain one of PARTs, or all keys.

    \b
    ictcli recipes keys prompt eval.columns
    """
    from dataclasses import asdict

    from ictcli.console.table import print_records
    from ictcli.recipe import Recipe
    from ictcli.recipe.keys import all_keys

    shown = [key for key in all_keys(Recipe) if any(part in key.key for part in parts or ("",))]
    if not shown:
        raise UserError(
            f"No key of a recipe has {' or '.join(parts)} in its name.", "ictcli recipes keys"
        )
    print_records([asdict(key) for key in shown], as_json=as_json)


@command.command("cp")
@click.argument("name", shell_complete=completion.recipes)
@click.argument("target", type=click.Path(path_type=Path))
def cp(name: str, target: Path) -> None:
    """Copy a recipe to TARGET, a folder or a .toml file."""
    from ictcli.console.lines import narrate
    from ictcli.files import write_text
    from ictcli.recipe import find_recipe, recipe_text

    source = find_recipe(name)
    path = target if target.suffix == ".toml" else Path(f"{target}.toml")
    path = target / source.name if target.is_dir() else path
    if path.exists():
        raise UserError(f"{path} exists already.", "choose another name")
    text = recipe_text(source)
    for data in sorted(source.parent.glob("data/*")):  # paths in the copy become absolute
        text = text.replace(f'"data/{data.name}"', json.dumps(str(data.resolve())))
    write_text(path, text)
    narrate(f"wrote {path}; edit it, then: {typed('train', path)}")
