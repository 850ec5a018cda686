"""`key=value` as typed on the command line, applied to the data of a recipe."""

from collections.abc import Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files.reading import parse_toml

NAMES = {"method": "name", "reward": "verifier"}
"""Tables that may be given as this key alone."""
TABLES = {**NAMES, "task": "name"}
"""And the task, which is its name in a recipe that is read."""
KEYS_HINT = "ictcli recipes keys explains them"


def typed_key(override: str) -> str:
    """The key of a `key=value`."""
    return override.partition("=")[0].strip()


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> None:
    """Set each `table.key=value` in place; the value is TOML, else a plain string. A name
    (`method=ict`, `reward=integer`) goes before the other keys of its table, wherever it was typed.
    A method's name drops the options of the method before it; a verifier's name leaves the other
    keys of the reward."""

    def is_name(override: str) -> bool:
        value = toml_value(override.partition("=")[2])
        return typed_key(override) in TABLES and isinstance(value, str)

    for override in sorted(overrides, key=is_name, reverse=True):
        key, equals, text = override.partition("=")
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
        value, reward = toml_value(text), data.get("reward")
        if key.strip() == "reward" and isinstance(value, str) and isinstance(reward, dict):
            value = {**cast(dict[str, Any], reward), NAMES["reward"]: value}
        table[parts[-1]] = value


def toml_value(text: str) -> Any:
    """The value typed after `key=`: TOML, else a plain string."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def blamed(source: str, typed: Sequence[str], *paths: str) -> str:
    """Where faulty keys come from: the command line, where one of them, its table or a key in it
    was typed; else `source`."""
    pairs = ((f"{path}.", f"{key}.") for path in paths for key in typed)
    return "command line" if any(a.startswith(b) or b.startswith(a) for a, b in pairs) else source
