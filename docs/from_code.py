"""The parts of the reference that are made from the code: Markdown, at build time.

A page names a part by `<!-- from code: NAME -->`, NAME being a function of this file.
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
    """The page with its named parts made."""
    return PLACE.sub(lambda place: globals()[place[1]](), page)


def recipe_keys() -> str:
    """A table of the top-level keys, and one of each table of keys."""
    tables = dict(nested(Recipe))
    parts = [key_table(Recipe, "")]
    for name, table in tables.items():
        below = dict(nested(table))
        title = f"## `{name}`\n\n{inspect.getdoc(table)}\n"
        parts += [title, key_table(table, f"{name}.")]
        for inner, table_below in below.items():
            same = next(key for key, other in tables.items() if other is table_below)
            what = meaning(table.model_fields[inner])
            parts.append(f"`{name}.{inner}.*`: {what} The keys are those of [`{same}`](#{same}).\n")
    return "\n".join(parts)


def key_table(model: type[BaseModel], prefix: str) -> str:
    """A Markdown table of a model's fields."""
    rows = [
        (f"`{key.key}`", key.values, f"`{key.default}`" * bool(key.default), key.meaning)
        for key in keys_of(model, prefix)
    ]
    return table(("key", "values", "default", "meaning"), rows)


def metrics() -> str:
    """A table of the metrics of a step."""
    fields = StepMetrics.model_fields
    rows = [
        (f"`{name}`", meaning(fields[name]), metric.unit, WHEN[metric.when])
        for name, metric in METRICS.items()
    ]
    return table(("metric", "meaning", "unit", "recorded at or with"), rows)


def methods() -> str:
    """A section for each method: what it trains, its options, its source."""
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
    """A section for each command, with its options."""
    context = click.Context(cli, info_name="ictcli")
    return "\n".join(
        section
        for name in COMMANDS
        if (command := cli.get_command(context, name))
        for section in command_sections(command, click.Context(command, context, name))
    )


def command_sections(command: click.Command, context: click.Context, level: int = 2) -> list[str]:
    """The section of a command, then of those below it."""
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
    """A command's help as Markdown; its lines after `\\b` are commands to type."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        f"```console\n{part[2:]}\n```" if part.startswith("\b\n") else escape(part)
        for part in paragraphs
    )


def escape(text: str) -> str:
    """Text of a terminal as Markdown: its signs mean themselves."""
    return re.sub(r"([*_<>\[\]|])", r"\\\1", text)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"
