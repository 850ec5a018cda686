"""The parts of the reference that are made from the code: Markdown, at build time.

A page names a part by `<!-- from code: NAME -->`, NAME being a function of this file.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, cast, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ictcli.algorithm.methods import METHODS
from ictcli.cli import COMMANDS, cli
from ictcli.recipe import Recipe

PLACE = re.compile(r"<!-- from code: (\w+) -->")
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
KINDS = {int: "integer", float: "number", bool: "true, false", str: "text", dict: "table"}


def fill_in(page: str) -> str:
    """The page with its named parts made."""
    return PLACE.sub(lambda place: globals()[place[1]](), page)


def recipe_keys() -> str:
    """A table of the top-level keys, and one of each table of keys."""
    tables = dict(nested(Recipe))
    parts = [key_table(Recipe, "", skip=set(tables))]
    for name, table in tables.items():
        below = dict(nested(table))
        title = f"## `{name}`\n\n{inspect.getdoc(table)}\n"
        parts += [title, key_table(table, f"{name}.", skip=set(below))]
        for inner, table_below in below.items():
            same = next(key for key, other in tables.items() if other is table_below)
            what = attribute_docs(table)[inner]
            parts.append(f"`{name}.{inner}.*`: {what} The keys are those of [`{same}`](#{same}).\n")
    return "\n".join(parts)


def nested(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The fields of a model that are tables of keys."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield name, info.annotation


def key_table(model: type[BaseModel], prefix: str, skip: set[str]) -> str:
    """A Markdown table of a model's fields."""
    docs = attribute_docs(model)
    rows = [
        (f"`{prefix}{name}`", values(info), default(info), docs.get(name, ""))
        for name, info in model.model_fields.items()
        if name not in skip
    ]
    return table(("key", "values", "default", "meaning"), rows)


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below a class's attributes, its parents' included, each on one line."""
    docs: dict[str, str] = {}
    for parent in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in pairwise(body.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(words))):
                    docs[name] = " ".join(words.split())
                case _:
                    pass
    return docs


def values(info: FieldInfo) -> str:
    """What a field takes: its choices, or its type and bounds."""
    kinds = [kind for kind in get_args(info.annotation) or (info.annotation,) if kind is not None]
    if get_origin(info.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in kinds)
    if get_origin(info.annotation) in (tuple, list):
        return f"list: {values_of(kinds[0])}"
    names = [values_of(kind) for kind in kinds if kind is not type(None)]
    bounds = [
        f"{sign} {getattr(bound, name):g}"
        for bound in info.metadata
        for name, sign in SIGNS.items()
        if hasattr(bound, name)
    ]
    return " or ".join(names) + (" " + ", ".join(bounds) if bounds else "")


def values_of(kind: Any) -> str:
    """The name of a type for readers of TOML."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    return KINDS.get(get_origin(kind) or kind, "table")


def default(info: FieldInfo) -> str:
    """A field's default as TOML writes it."""
    if info.is_required():
        return "required"
    value = info.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`".replace("e-0", "e-")
    return f"`{list(cast(tuple[object, ...], value)) if isinstance(value, tuple) else value}`"


def methods() -> str:
    """A section for each method: what it trains, its options, its source."""
    parts: list[str] = []
    for method in METHODS.values():
        about = inspect.getdoc(method.rule)
        mean = f"Normalisation: `{method.normalisation}`. Source: {method.source}."
        options = method.options.model_fields
        parts.append(f"## `{method.name}`\n\n{about}\n\n{mean}\n")
        if options:
            parts.append(key_table(method.options, "method.", skip=set()))
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
