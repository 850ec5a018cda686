"""What the shell offers for a recipe, besides what click completes: commands, options, paths."""

import click
from click.shell_completion import CompletionItem


def recipes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Offer the shipped recipes, and files."""
    from ictcli.recipe import shipped_recipes

    names = [name for name in shipped_recipes() if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]
