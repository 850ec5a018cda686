"""What the keys of a recipe take and mean, for readers: from the fields and their docstrings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
KINDS = {int: "integer", float: "number", bool: "true, false", str: "text", dict: "table"}


@dataclass(frozen=True)
class Key:
    """A key of a recipe, in words."""

    key: str
    """Its name, with a dot before each part of a table."""
    values: str
    """Its choices, or its type and bounds."""
    default: str
    """As TOML writes it; empty: none, or "required"."""
    meaning: str


def all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """The keys of a model, then those of its tables."""
    yield from keys_of(model, prefix)
    for name, table in nested(model):
        yield from all_keys(table, f"{prefix}{name}.")


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """The keys of a model that are no tables of keys."""
    tables = dict(nested(model))
    for name, info in model.model_fields.items():
        if name not in tables:
            yield Key(f"{prefix}{name}", values(info), default(info), meaning(info))


def meaning(info: FieldInfo) -> str:
    """The docstring of a field, on one line."""
    return " ".join((info.description or "").split())


def nested(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The fields of a model that are tables of keys."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield name, info.annotation


def values(info: FieldInfo) -> str:
    """What a field takes: its choices, or its type and bounds."""
    kinds = [kind for kind in get_args(info.annotation) or (info.annotation,) if kind is not None]
    if get_origin(info.annotation) is Literal:
        return ", ".join(str(choice) for choice in kinds)
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
        return ", ".join(str(choice) for choice in get_args(kind))
    return KINDS.get(get_origin(kind) or kind, "table")


def default(info: FieldInfo) -> str:
    """A field's default as TOML writes it."""
    if info.is_required():
        return "required"
    value = info.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-")
    return str(list(cast(tuple[object, ...], value)) if isinstance(value, tuple) else value)
