"""The samples of an evaluation, on disk as they come: one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ictcli.errors import RunFailedError, UserError
from ictcli.rewards import Verdict
from ictcli.rewards.verifiers import STATUSES
from ictcli.types import Problem, Rollouts

PARSED = ("correct", "wrong")
BEGINNING = b'{"id": "'
"""Of each line: a last one without an end that begins in another way is no torn line of ours."""


@dataclass(frozen=True)
class Sample:
    """What is counted of one response."""

    status: str
    extracted: str
    tokens: int
    finished: bool
    """False: cut at max_tokens."""


def make_samples(
    name: str,
    problems: Sequence[Problem],
    n: int,
    rollouts: Rollouts,
    texts: Sequence[str],
    verdicts: Sequence[Verdict],
    *,
    private: bool,
) -> list[dict[str, Any]]:
    """The lines of `problems`, n each in their order. `private` leaves out all that quotes a
    question. RunFailedError unless every problem has n responses, each with a verdict."""
    for found, what in ((len(rollouts), "responses"), (len(verdicts), "verdicts")):
        if found != n * len(problems):
            raise RunFailedError(
                f"The evaluation {name} has {found} {what} where {n * len(problems)} were asked "
                f"for ({len(problems)} problems, {n} each); a missing one is not a wrong one.",
                "the verifier or the engine loses some",
            )
    lines: list[dict[str, Any]] = []
    for row, verdict in enumerate(verdicts):
        problem, extracted = problems[row // n], verdict.extracted
        lengths = {"tokens": int(rollouts.lengths[row]), "finished": bool(rollouts.finished[row])}
        if private:
            known = verdict.status in PARSED and len(extracted) == 1
            extracted = extracted if known else ""
            lines.append(
                {"id": problem.id, "status": verdict.status, "extracted": extracted, **lengths}
            )
            continue
        lines.append(
            {
                "id": problem.id,
                "prompt": problem.prompt,
                "gold": problem.gold,
                "response": texts[row],
                "status": verdict.status,
                "extracted": extracted,
                "reason": verdict.reason,
                **lengths,
            }
        )
    return lines


def sample_of(line: dict[str, Any]) -> Sample:
    return Sample(line["status"], line["extracted"], line["tokens"], line["finished"])


def append(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Put lines behind a file's and ask the disk to hold them now."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with path.open("ab") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def start(path: Path) -> None:
    """An empty file, its folder made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def recover(
    path: Path, problems: Sequence[Problem], n: int, chunk: int, *, private: bool
) -> list[Sample]:
    """The samples of the whole chunks of `chunk` problems that a killed evaluation left, in their
    order; the file is cut behind them. A torn last line is no line. UserError where lines are
    changed or were taken out, or are another benchmark's; the file stays as it is."""
    if not path.exists():
        start(path)
        return []
    found: list[Sample] = []
    ends = [0]
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            torn = not raw.endswith(b"\n")
            if torn and BEGINNING.startswith(raw.rstrip(b"\0")[: len(BEGINNING)]):
                break
            ends.append(ends[-1] + len(raw))
            line = None if torn or number >= n * len(problems) else _line(raw)
            if line is None or not _is_of(line, problems[number // n], private=private):
                raise UserError(
                    f"{path}, line {number + 1} is not as this evaluation wrote it.",
                    "put the file back, or evaluate in another folder: --out OTHER",
                )
            found.append(sample_of(line))
    done = len(found) // n
    done = done if done == len(problems) else done // chunk * chunk
    if path.stat().st_size > ends[done * n]:
        os.truncate(path, ends[done * n])
    return found[: done * n]


def _is_of(line: dict[str, Any], problem: Problem, *, private: bool) -> bool:
    """Whether a line is a sample of that problem."""
    keys = ("id",) if private else ("id", "prompt", "gold")
    return all(line.get(key) == getattr(problem, key) for key in keys)


def _line(raw: bytes) -> dict[str, Any] | None:
    """A line, or None where it is none of ours."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    kinds = {"id": str, "status": str, "extracted": str, "tokens": int, "finished": bool}
    if not isinstance(line, dict):
        return None
    line = cast(dict[str, Any], line)
    whole = all(isinstance(line.get(key), kind) for key, kind in kinds.items())
    return line if whole and line["status"] in STATUSES else None


def by_problem(name: str, samples: Sequence[Sample], n: int, problems: int) -> list[list[Sample]]:
    """`problems` lists of n samples. RunFailedError where any is missing."""
    if len(samples) != n * problems:
        raise RunFailedError(
            f"The evaluation {name} has {len(samples)} samples, not {n} of each of {problems} "
            "problems; a missing one is not a wrong one.",
            "ictcli eval ... --resume takes those that are missing",
        )
    return [list(samples[first : first + n]) for first in range(0, n * problems, n)]


def counts(rows: Sequence[Sequence[Sample]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(problems,) correct samples."""
    return np.array([sum(s.status == "correct" for s in row) for row in rows], dtype=np.int64)
