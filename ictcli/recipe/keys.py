"""The keys of a recipe: their values and meanings, from the fields and their docstrings, and the
`key=value` overrides of the command line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ictcli.errors import UserError
from ictcli.files.reading import parse_toml
from ictcli.text import quoted

SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
KINDS = {int: "integer", float: "number", bool: "true, false", str: "text", dict: "table"}


@dataclass(frozen=True)
class Key:
    """The description of a recipe key."""

    key: str
    """The key's dotted name, such as `clip.low`."""
    values: str
    """The key's choices, or its type and bounds."""
    default: str
    """The default in TOML; empty if there is none, "required" if the key must be set."""
    meaning: str


def all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Yield the keys of a model, then those of its tables."""
    yield from keys_of(model, prefix)
    for name, table in nested(model):
        yield from all_keys(table, f"{prefix}{name}.")


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Yield the keys of a model that are not tables of keys."""
    tables = dict(nested(model))
    for name, info in model.model_fields.items():
        if name not in tables:
            yield Key(f"{prefix}{name}", values(info), default(info), meaning(info))


def meaning(info: FieldInfo) -> str:
    """Return the docstring of a field, on one line."""
    return " ".join((info.description or "").split())


def nested(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the name and model of each field that is a table of keys."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield name, info.annotation


def values(info: FieldInfo) -> str:
    """Describe the values of a field: its choices, or its type and bounds."""
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
    """Return the name of a type in TOML's terms, or the choices of a Literal."""
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    return KINDS.get(get_origin(kind) or kind, "table")


def default(info: FieldInfo) -> str:
    """Return a field's default as TOML writes it."""
    if info.is_required():
        return "required"
    return "" if info.default is None else quoted(info.default)


NAMES = {"method": "name", "reward": "verifier"}
"""Tables that may be set to a text, and the key that it sets: `method=ict` sets `method.name`."""
TABLES = {**NAMES, "task": "name"}
"""`NAMES` and `task`, which is a table only while a recipe is read."""
KEYS_HINT = "ictcli recipes keys explains the keys"


def names_to_tables(data: dict[str, Any]) -> None:
    """Replace, in place, a table that is given as a name alone, as in `method = "grpo"`."""
    for key, name in NAMES.items():
        if isinstance(data.get(key), str):
            data[key] = {name: data[key]}


def typed_key(override: str) -> str:
    """Return the key of a `key=value`."""
    return override.partition("=")[0].strip()


def apply_overrides(data: dict[str, Any], overrides: Sequence[str], model: type[BaseModel]) -> None:
    """Set each `table.key=value` in place. A value is TOML or else a plain string; for a key of
    `model` that takes text, `1e5` too is a string. Names such as `method=ict` or `reward=integer`
    are set before the other keys of their table. A new method's name drops the old method's
    options; a new verifier's name keeps the other keys of the reward."""

    def value_of(override: str) -> Any:
        return toml_value(override.partition("=")[2], takes_text(model, typed_key(override)))

    def is_name(override: str) -> bool:
        return typed_key(override) in TABLES and isinstance(value_of(override), str)

    for override in sorted(overrides, key=is_name, reverse=True):
        key, equals, _ = override.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise UserError(
                f"{override!r} is not of the form key=value.",
                "for example: seed=1 checkpoint.every=10",
            )
        table = data
        for part in parts[:-1]:
            inner = table.setdefault(part, {})
            if part in TABLES and isinstance(inner, str):
                inner = table[part] = {TABLES[part]: inner}
            if not isinstance(inner, dict):
                raise UserError(f"{part} in {override!r} is a value, not a table.", KEYS_HINT)
            table = cast(dict[str, Any], inner)
        value, reward = value_of(override), data.get("reward")
        if key.strip() == "reward" and isinstance(value, str) and isinstance(reward, dict):
            value = {**cast(dict[str, Any], reward), NAMES["reward"]: value}
        table[parts[-1]] = value


def takes_text(model: type[BaseModel], key: str) -> bool:
    """Return whether a key takes text but no number."""
    if key in TABLES:
        return True
    name, _, rest = key.partition(".")
    kind = info.annotation if (info := model.model_fields.get(name)) else None
    if rest:
        return isinstance(kind, type) and issubclass(kind, BaseModel) and takes_text(kind, rest)
    kinds = {inner for part in get_args(kind) or [kind] for inner in get_args(part) or [part]}
    return str in kinds and int not in kinds


def toml_value(text: str, is_text: bool = False) -> Any:
    """Parse the value typed after `key=` as TOML; if that fails, return it as a string. With
    `is_text`, `nan`, `1e5` and `true` stay strings."""
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text
    return text.strip() if is_text and type(value) not in (str, list, dict) else value


def blamed(source: str, typed: Sequence[str], *paths: str) -> str:
    """Return where faulty keys come from, for an error message: the command line, if one of these
    keys (or its table, or a key in it) was typed there; else `source`."""
    pairs = ((f"{path}.", f"{key}.") for path in paths for key in typed)
    return "command line" if any(a.startswith(b) or b.startswith(a) for a, b in pairs) else source
