"""Files of responses and golds, one JSON object a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable, write_text
from ictcli.rewards.grading import grade
from ictcli.rewards.verifiers import Verdict, Verifier
from ictcli.rewards.worker import Limits


@dataclass(frozen=True)
class Row:
    """A line of the file: its number from 1, what is judged, and all that stood there."""

    number: int
    response: str
    gold: str
    choices: tuple[str, ...]
    columns: dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSONL file. UserError, with the line's number, for what is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"There is no file {path}.", "give the path of a .jsonl file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}.", "save it as UTF-8") from error
    rows = [_row(line, n, path) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise UserError(f"{path} is empty.", 'a line is {"response": "...", "gold": "..."}')
    return rows


def _row(line: str, number: int, path: Path) -> Row:
    where, form = f"{path}, line {number}", 'a line is {"response": "...", "gold": "..."}'
    try:
        columns = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}.", form) from error
    if not isinstance(columns, dict):
        raise UserError(f"{where} is not an object.", form)
    columns = cast(dict[str, Any], columns)
    texts: list[str] = []
    for name in ("response", "gold"):
        value = columns.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UserError(f"{where} has no {name}.", form)
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{where} has no {name}.", form)
        texts.append(str(value))
    choices: Any = columns.get("choices") or []
    if not isinstance(choices, list):
        raise UserError(f"{where}: choices is not a list.", '"choices": ["one", "two"]')
    texts_of = tuple(str(choice) for choice in cast(list[Any], choices))
    return Row(number, texts[0], texts[1], texts_of, columns)


def grade_file(
    rows: Sequence[Row], verifier: Verifier, pattern: str | None, limits: Limits
) -> list[Verdict]:
    """The verdict on each row."""
    return grade(
        [row.response for row in rows],
        [row.gold for row in rows],
        verifier,
        pattern=pattern,
        choices=[row.choices for row in rows],
        limits=limits,
    )


def write_rows(path: Path, rows: Sequence[Row], verdicts: Sequence[Verdict]) -> None:
    """The rows as they were, each with its status, extracted, reason and score."""
    lines = (
        json.dumps({**row.columns, **asdict(verdict)}, ensure_ascii=False) + "\n"
        for row, verdict in zip(rows, verdicts, strict=True)
    )
    write_text(path, encodable("".join(lines)))
