"""Files of responses and golds for `ictcli grade`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
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
    """A row of the file."""

    number: int
    """Line or row, from 1."""
    text: str
    gold: str
    choices: tuple[str, ...]
    question: str
    """Empty if the row has none."""
    columns: dict[str, Any]
    """Everything in the row."""


def read_responses(path: Path) -> list[Response]:
    """The responses of a .csv, .parquet or JSONL file, by its columns response, gold, choices and
    question (or prompt). UserError, with the line, for a row without them."""
    responses: list[Response] = []
    for row in read_file(str(path)).rows:
        for name in ("response", "gold"):
            if isinstance(row.get(name), bool):
                raise UserError(f"{row.where} has no {name}.", "each row needs one, as text")
        choices: Any = row.get("choices") or []
        if not isinstance(choices, list):
            raise UserError(f"{row.where}: choices is not a list.", '"choices": ["one", "two"]')
        texts = tuple(str(choice) for choice in cast(list[Any], choices))
        empty = row.columns.get("response", "") is None  # as is a cell of CSV
        response, gold = "" if empty else text(row, "response"), text(row, "gold")
        asked = next((row.get(name) for name in PROMPTS if isinstance(row.get(name), str)), "")
        responses.append(Response(row.number, response, gold, texts, asked, row.columns))
    return responses


def as_columns(
    verdict: Verdict, explanation: Explanation | None, beside: Verdict | None = None
) -> dict[str, Any]:
    """A verdict as columns: status, extracted, reason, score; and its explanation, and another
    verifier's verdict, if there are any."""
    columns: dict[str, Any] = asdict(verdict)
    if beside is not None:
        columns["beside"] = asdict(beside)
    if explanation is not None:
        parts = {name: part for name, part in asdict(explanation).items() if name != "verdict"}
        columns["explanation"] = {**parts, "why": explanation.why}
    return columns


def write_verdicts(
    path: Path,
    responses: Sequence[Response],
    verdicts: Sequence[Verdict],
    explanations: Sequence[Explanation] = (),
    beside: Sequence[Verdict] = (),
) -> None:
    """The rows as JSONL, each with the columns of its verdict."""
    lines = (
        json.dumps(
            finite({**response.columns, **as_columns(verdict, explanation, other)}),
            ensure_ascii=False,
        )
        + "\n"
        for response, verdict, explanation, other in zip_longest(
            responses, verdicts, explanations, beside
        )
    )
    write_text(path, encodable("".join(lines)))
