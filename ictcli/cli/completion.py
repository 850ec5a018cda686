"""Shell completion of recipe names. Click itself completes commands, options and paths."""

import click
from click.shell_completion import CompletionItem


def recipes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Return the shipped recipes that begin with `incomplete`, and an item that completes files."""
    from ictcli.recipe import shipped_recipes

    names = [name for name in shipped_recipes() if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]
