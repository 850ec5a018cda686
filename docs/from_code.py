"""Markdown for the reference pages, made from the program when the site is built.

`<!-- from code: NAME -->` in a page is replaced by the result of the function NAME of this file.
"""

import inspect
import re

import click
from pydantic import BaseModel

from ictcli.algorithm.methods import METHODS
from ictcli.cli import COMMANDS, cli
from ictcli.recipe import Recipe
from ictcli.recipe.keys import keys_of, meaning, nested
from ictcli.recipe.metrics import METRICS, WHEN, StepMetrics

PLACE = re.compile(r"<!-- from code: (\w+) -->")


def fill_in(page: str) -> str:
    """Return the page, with each `<!-- from code: NAME -->` replaced by the result of NAME()."""
    return PLACE.sub(lambda place: globals()[place[1]](), page)


def recipe_keys() -> str:
    """Return a table of the recipe's top-level keys, then one for each of its tables."""
    tables = dict(nested(Recipe))
    parts = [key_table(Recipe, "")]
    for name, table in tables.items():
        below = dict(nested(table))
        title = f"## `{name}`\n\n{inspect.getdoc(table)}\n"
        parts += [title, key_table(table, f"{name}.")]
        for inner, table_below in below.items():
            same = next(key for key, other in tables.items() if other is table_below)
            text = meaning(table.model_fields[inner])
            parts.append(f"`{name}.{inner}.*`: {text} The keys are those of [`{same}`](#{same}).\n")
    return "\n".join(parts)


def key_table(model: type[BaseModel], prefix: str) -> str:
    """Return a Markdown table of a pydantic model's fields, with `prefix` before each name."""
    rows = [
        (f"`{key.key}`", key.values, f"`{key.default}`" * bool(key.default), key.meaning)
        for key in keys_of(model, prefix)
    ]
    return table(("key", "values", "default", "meaning"), rows)


def metrics() -> str:
    """Return a table of the metrics of a step."""
    fields = StepMetrics.model_fields
    rows = [
        (f"`{name}`", meaning(fields[name]), metric.unit, WHEN[metric.when])
        for name, metric in METRICS.items()
    ]
    return table(("metric", "meaning", "unit", "recorded at or with"), rows)


def methods() -> str:
    """Return a section for each method: what it trains, its options, its source."""
    parts: list[str] = []
    for method in METHODS.values():
        about = inspect.getdoc(method.rule)
        mean = f"Normalisation: `{method.normalisation}`. Source: {method.source}."
        options = method.options.model_fields
        parts.append(f"## `{method.name}`\n\n{about}\n\n{mean}\n")
        if options:
            parts.append(key_table(method.options, "method."))
    return "\n".join(parts)


def commands() -> str:
    """Return a section for each command, with its options."""
    context = click.Context(cli, info_name="ictcli")
    return "\n".join(
        section
        for name in COMMANDS
        if (command := cli.get_command(context, name))
        for section in command_sections(command, click.Context(command, context, name))
    )


def command_sections(command: click.Command, context: click.Context, level: int = 2) -> list[str]:
    """Return the section of a command, then the sections of its subcommands."""
    usage = " ".join(command.collect_usage_pieces(context))
    head = f"{'#' * level} {context.command_path}\n\n```text\n{context.command_path} {usage}\n```\n"
    rows = [
        (f"`{record[0].replace(' RANGE', '')}`", escape(record[1]))
        for option in command.params
        if isinstance(option, click.Option) and (record := option.get_help_record(context))
    ]
    options = table(("option", "meaning"), rows) if rows else ""
    sections = [f"{head}\n{help_text(command)}\n\n{options}"]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            below = click.Context(inner, context, name)
            sections += command_sections(inner, below, level + 1)
    return sections


def help_text(command: click.Command) -> str:
    """Return a command's help as Markdown; paragraphs after `\\b` are commands to type."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        f"```console\n{part[2:]}\n```" if part.startswith("\b\n") else escape(part)
        for part in paragraphs
    )


def escape(text: str) -> str:
    """Return plain text as Markdown, with special characters escaped."""
    return re.sub(r"([*_<>\[\]|])", r"\\\1", text)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"
