"""Origins of runs, checkpoints and evaluations, and the comparison of origins.

An origin is a table of plain values: settings, and checksums of models, data and code, whose paths
may change. It is stored in environment.json of a run, in state.json of a checkpoint and in
settings.json of an evaluation.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.files.reading import read_bytes

Origin = Mapping[str, Any]
MAIN = ("format", "recipe", "models", "benchmarks")
"""Keys of an origin that are reported first if several differ, as other keys depend on them."""
LONGEST = 60
"""Most characters of a value that a message shows."""


def flat(table: Origin) -> dict[str, Any]:
    """Flatten nested tables into one with dotted names; a table in a list is named by its
    `name`."""
    return dict(_flat(table, ""))


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in cast(dict[str, Any], value).items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif tables := _named(value):
        yield path, list(tables)
        for name, table in tables.items():
            yield from _flat(table, name)
    else:
        yield path, value


def _named(value: Any) -> dict[str, Any]:
    """Return the tables of a list by their `name`; empty for any other value."""
    tables = cast(list[Any], value) if isinstance(value, list) else []
    if not all(isinstance(table, dict) and "name" in table for table in tables):
        return {}
    return {str(table["name"]): table for table in tables}


def differing(tables: Sequence[Origin]) -> dict[str, list[Any]]:
    """Return, by dotted name, the values that differ: one per table, None if a table lacks the
    name. An empty table (its file is missing) counts as equal."""
    rows = [flat(table) for table in tables]
    filled = [row for row in rows if row]
    names = dict.fromkeys(name for row in filled for name in row)
    unlike = [name for name in names if any(row.get(name) != filled[0].get(name) for row in filled)]
    return {name: [row.get(name) for row in rows] for name in unlike}


def difference(before: Origin, now: Origin) -> str | None:
    """Return what differs as a clause, `n = 4, and now 8`; None if nothing does."""
    parts = differing([before, now])
    if not parts:
        return None
    key = min(parts, key=lambda key: key not in MAIN)
    old, new = map(_text, parts[key])
    more = f" ({len(parts) - 1} more differ)" if len(parts) > 1 else ""
    return f"{key} = {old}, and now {new}{more}"


def _text(value: Any) -> str:
    is_list = isinstance(value, list)
    text = ", ".join(map(str, cast(list[Any], value))) if is_list else json.dumps(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def digest(table: Origin) -> str:
    """Return the SHA-256 of a table, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def of_files(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return the SHA-256 checksums of files by file name; folders are ignored."""
    checksums: dict[str, list[str]] = {}
    for path in dict.fromkeys(file.resolve() for file in files):
        checksums.setdefault(path.name, []).append(hashlib.sha256(read_bytes(path)).hexdigest())
    return {name: sorted(checksums[name]) for name in sorted(checksums)}
