"""Ways in which a file of a run may be damaged."""

import contextlib
import json
import random
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, cast

import tomli_w


def flipped(data: bytes, chance: random.Random) -> bytes:
    """A few bits the other way, half of the time near the beginning."""
    if not data:
        return b"\0"
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 4])):
        limit = min(len(data), 512) if chance.random() < 0.5 else len(data)
        changed[chance.randrange(limit)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def truncated(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def emptied(data: bytes, chance: random.Random) -> bytes:
    return b""


def overwritten(data: bytes, chance: random.Random) -> bytes:
    """A block of noise or of zeros, as a failing disk leaves."""
    start = chance.randrange(len(data) + 1)
    size = chance.choice([1, 16, 512])
    block = bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
    return data[:start] + block + data[start + size :]


def retyped(data: bytes, chance: random.Random) -> bytes:
    """Of JSON, TOML or a safetensors header, a value of another type or a key less."""
    with contextlib.suppress(ValueError):
        return json.dumps(_changed(json.loads(data), chance)).encode()
    with contextlib.suppress(ValueError, TypeError):  # TOML has no null
        return tomli_w.dumps(_changed(tomllib.loads(data.decode()), chance)).encode()
    lines = data.splitlines(keepends=True)
    with contextlib.suppress(ValueError, IndexError):
        number = chance.randrange(len(lines))
        line = json.dumps(_changed(json.loads(lines[number]), chance)).encode() + b"\n"
        return b"".join([*lines[:number], line, *lines[number + 1 :]])
    length = int.from_bytes(data[:8], "little")
    with contextlib.suppress(ValueError):
        header = json.dumps(_changed(json.loads(data[8 : 8 + length]), chance)).encode()
        return len(header).to_bytes(8, "little") + header + data[8 + length :]
    return flipped(data, chance)


OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 10**30, 0.5, -1.5, 1e308, "", "x", "a\x1b[31m", "../..", "é\n"),
    *([], [[]], [1], {}, {"a": 1}, {"": [None]}, float("nan")),
)


def _changed(data: Any, chance: random.Random) -> Any:
    """The data with one value, anywhere in it, of another kind, or one key or item less."""
    places = list(_places(data))
    if not places:
        return chance.choice(OTHERS)
    container, key = chance.choice(places)
    if chance.random() < 0.2:
        del container[key]
    else:
        container[key] = chance.choice(OTHERS)
    return data


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(data, dict | list):
        container = cast(Any, data)
        keys = list(container) if isinstance(data, dict) else range(len(container))
        for key in keys:
            yield container, key
            yield from _places(container[key])


PIPED = "piped"
"""A pipe in the file's place: who opens it to read waits for a writer."""

DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped": flipped,
    "truncated": truncated,
    "emptied": emptied,
    "overwritten": overwritten,
    "retyped": retyped,
}
