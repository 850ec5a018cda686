"""Ways in which a file of a run may be damaged, or another thing may take its place."""

import contextlib
import json
import os
import random
import shutil
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
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


# Content that only a stranger writes


def nested(data: bytes, chance: random.Random) -> bytes:
    """One value of JSON or TOML, or all of it, as a list in a list, thousands deep."""
    depth = chance.choice([101, 900, 5000, 100_000])
    deep = b"[" * depth + b"]" * depth
    lines = data.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if b" = " in line or b'": ' in line]
    if not places or chance.random() < 0.2:
        return deep
    at = chance.choice(places)
    key, sign, _ = lines[at].partition(b" = " if b" = " in lines[at] else b'": ')
    end = b",\n" if lines[at].rstrip().endswith(b",") else b"\n"
    return b"".join([*lines[:at], key, sign, deep, end, *lines[at + 1 :]])


EXTREMES = (float("inf"), -float("inf"), float("nan"), 1e308, -1e308, 10**400, -(10**5000), 5e-324)


def extreme(data: bytes, chance: random.Random) -> bytes:
    """Every number, or some, as one that no run writes, on many lines if there are lines."""
    value, share = chance.choice(EXTREMES), chance.choice([0.1, 1.0])

    def change(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: change(each) for key, each in cast(dict[str, Any], data).items()}
        if isinstance(data, list):
            return [change(each) for each in cast(list[Any], data)]
        number = isinstance(data, int | float) and not isinstance(data, bool)
        return value if number and chance.random() < share else data

    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        return _dumped(change(json.loads(text)))
    with contextlib.suppress(ValueError, TypeError):
        return tomli_w.dumps(change(tomllib.loads(text))).encode()
    with contextlib.suppress(ValueError, IndexError):
        lines = [_dumped(change(json.loads(line))) for line in text.splitlines()]
        return b"\n".join(lines * chance.choice([1, 2000])) + b"\n"
    return flipped(data, chance)


def _dumped(data: Any) -> bytes:
    """JSON of integers of any length."""
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(data).encode()
    finally:
        sys.set_int_max_str_digits(4300)


def _of(change: Callable[[bytes, random.Random], bytes]) -> "Damage":
    def damage(path: Path, chance: random.Random) -> None:
        data = path.read_bytes()
        path.unlink()  # it may be a link to a file that others share
        path.write_bytes(change(data, chance))

    return damage


# What may lie in its place

Damage = Callable[[Path, random.Random], None]
SECRET = "what lies outside is nobody's business"


def piped(path: Path, chance: random.Random) -> None:
    """Who opens a pipe to read waits for a writer."""
    path.unlink()
    os.mkfifo(path)


def plugged(path: Path, chance: random.Random) -> None:
    path.unlink()
    place = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(place)


def foldered(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path, chance: random.Random) -> None:
    """What was there, or nothing, and 10 to 40 GB of zeros that take no room."""
    data = path.read_bytes() if chance.random() < 0.5 else b""
    path.unlink()
    path.write_bytes(data)
    os.truncate(path, chance.randint(10, 40) << 30)


def linked(path: Path, chance: random.Random) -> None:
    """A link to itself, to nothing, to a device, to a neighbour, or to a secret outside."""
    run = next(each for each in path.parents if each.name == "run")
    other = os.path.relpath(chance.choice(sorted(run.rglob("*"))), path.parent)
    outside = str(run.parent / "outside" / "key")
    path.unlink()
    path.symlink_to(
        chance.choice([path.name, "nothing", "/dev/zero", "/dev/tty", other, outside, "."])
    )


def folder_linked(path: Path, chance: random.Random) -> None:
    """Its folder is a link: to one outside with a pipe in it, to itself, or back up."""
    run = next(each for each in path.parents if each.name == "run")
    folder = path.parent
    if folder == run:
        linked(path, chance)
        return
    shutil.rmtree(folder)
    folder.symlink_to(chance.choice([str(run.parent / "outside"), folder.name, "..", "/dev/fd"]))


def farmed(path: Path, chance: random.Random) -> None:
    """Beside it, hundreds of links of every kind, each with a name that a run has."""
    names = (
        "step-{:06d}",
        "step-{:06d}.safetensors",
        "{}.json",
        "{}.jsonl",
        ".{}.9.tmp",
        "{}.jinja",
    )
    for number in range(300):
        place = path.parent / chance.choice(names).format(number)
        with contextlib.suppress(FileExistsError):
            place.symlink_to(chance.choice([place.name, "..", path.name, f"{number}", "nothing"]))


def dated(path: Path, chance: random.Random) -> None:
    at = chance.choice([-1e10, 1e11, 1e15])
    os.utime(path, (at, at))


PLACED: dict[str, Damage] = {
    each.__name__: each
    for each in (piped, plugged, foldered, huge, linked, folder_linked, farmed, dated)
}
DAMAGE: dict[str, Damage] = PLACED | {
    change.__name__: _of(change)
    for change in (flipped, truncated, emptied, overwritten, retyped, nested, extreme)
}
