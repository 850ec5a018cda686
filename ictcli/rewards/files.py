"""Read files of responses and golds for `ictcli grade`, and write the verdicts."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable, write_text
from ictcli.rewards.explanations import Explanation
from ictcli.rewards.verifiers import Verdict
from ictcli.rows import PROMPTS, read_file, text
from ictcli.text import finite


@dataclass(frozen=True)
class Response:
    """A response of a file, with its gold."""

    number: int
    """Number of the line or row in the file, from 1."""
    text: str
    gold: str
    choices: tuple[str, ...]
    question: str
    """Empty if the row has no question."""
    columns: dict[str, Any]
    """All columns of the row, by name."""


def read_responses(path: Path) -> list[Response]:
    """Return the responses of a .csv, .parquet or JSONL file, from its columns response, gold and,
    if present, choices and question (or prompt). UserError if a row has no response or gold."""
    responses: list[Response] = []
    for row in read_file(str(path)).rows:
        for name in ("response", "gold"):
            if isinstance(row.get(name), bool):
                raise UserError(f"{row.where} has no {name}.", "each row needs one, as text")
        choices: Any = row.get("choices") or []
        if not isinstance(choices, list):
            raise UserError(f"{row.where}: choices is not a list.", '"choices": ["one", "two"]')
        texts = tuple(str(choice) for choice in cast(list[Any], choices))
        empty = row.columns.get("response", "") is None  # an empty cell of CSV
        response, gold = "" if empty else text(row, "response"), text(row, "gold")
        asked = next((row.get(name) for name in PROMPTS if isinstance(row.get(name), str)), "")
        responses.append(Response(row.number, response, gold, texts, asked, row.columns))
    return responses


def as_columns(verdict: Verdict | Explanation) -> dict[str, Any]:
    """Return the columns of a verdict: status, extracted, reason, score; explanation if any."""
    if isinstance(verdict, Verdict):
        return asdict(verdict)
    parts = asdict(verdict)
    return {**parts.pop("verdict"), "explanation": parts}


def write_verdicts(
    path: Path, responses: Sequence[Response], verdicts: Sequence[Verdict | Explanation]
) -> None:
    """Write the rows as JSONL, with the columns of the verdict added to each."""
    rows = zip(responses, verdicts, strict=True)
    lines = [
        json.dumps(finite({**row.columns, **as_columns(verdict)}), ensure_ascii=False) + "\n"
        for row, verdict in rows
    ]
    write_text(path, encodable("".join(lines)))
