"""Samples of an evaluation on disk: JSON lines, appended chunk by chunk."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.record import Record
from ictcli.files import appended
from ictcli.files.reading import lines, parse_json
from ictcli.rewards import Verdict
from ictcli.rewards.verifiers import Status
from ictcli.types import Problem, Rollouts

CHUNK = 64
"""Problems a call of the engine in training. Fixed: each chunk's seed comes from its place."""
PARSED = ("correct", "wrong")
BEGINNING = b'{"id": "'
"""Starts every line. A last line without a newline that starts otherwise was not cut by a kill."""


class Sample(Record):
    """The counts of one response; of a response to private data nothing else is written."""

    model_config = ConfigDict(strict=True)

    id: str
    status: Status
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
    """Return the lines of `problems`, n for each in order; `private` leaves out what quotes a
    question. RunFailedError unless every problem has n responses, each with a verdict."""
    expected = n * len(problems)
    for count, what in ((len(rollouts), "responses"), (len(verdicts), "verdicts")):
        if count != expected:
            raise RunFailedError(
                f"The evaluation {name} has {count} {what} where {expected} were asked "
                f"for ({len(problems)} problems, {n} each); a missing one is not a wrong one.",
                "the verifier or the engine loses some",
            )
    lines: list[dict[str, Any]] = []
    for row, verdict in enumerate(verdicts):
        problem, extracted = problems[row // n], verdict.extracted
        if private and not (verdict.status in PARSED and len(extracted) == 1):
            extracted = ""
        line = {
            "id": problem.id,
            "prompt": problem.prompt,
            "gold": problem.gold,
            "response": texts[row],
            "status": verdict.status,
            "extracted": extracted,
            "reason": verdict.reason,
            "tokens": int(rollouts.lengths[row]),
            "finished": bool(rollouts.finished[row]),
        }
        lines.append({key: line[key] for key in Sample.model_fields} if private else line)
    return lines


def _parse(raw: bytes, problem: Problem, *, private: bool) -> Sample | None:
    try:
        line = parse_json(raw)
        for key in ("id",) if private else ("id", "prompt", "gold"):
            if line[key] != getattr(problem, key):
                return None
        return Sample.model_validate(line)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class SampleFile:
    """A file of samples, written after every `chunk` problems."""

    path: Path
    chunk: int = CHUNK
    resume: bool = False
    """Whether the samples that the file holds are kept."""

    def at(self, temperature: float) -> "SampleFile":
        """Return the file of another temperature: `before@0.3.jsonl` for `before.jsonl`."""
        mark = f"@{temperature!r}".removesuffix(".0")
        return replace(self, path=self.path.with_stem(f"{self.path.stem}{mark}"))

    def append(self, samples: Sequence[dict[str, Any]]) -> None:
        """Add a chunk, and sync it to disk."""
        text = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
        with appended(self.path) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def recover(self, problems: Sequence[Problem], n: int, *, private: bool) -> list[Sample]:
        """Return the samples that are kept, in order, as far as they fill whole chunks; what
        follows is cut off. A missing file is made.

        A last line that a kill cut short is ignored. UserError where a line was changed or removed,
        or belongs to another benchmark; the file is then left as it is.
        """
        path = self.path
        if not self.resume:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():  # a finished file stays as it is
            path.touch()
        samples: list[Sample] = []
        ends = [0]
        for number, raw in enumerate(lines(path)):
            torn = not raw.endswith(b"\n")
            if torn and BEGINNING.startswith(raw.rstrip(b"\0")[: len(BEGINNING)]):
                break
            ends.append(ends[-1] + len(raw))
            extra = torn or number >= n * len(problems)
            sample = None if extra else _parse(raw, problems[number // n], private=private)
            if sample is None:
                raise UserError(
                    f"{path}, line {number + 1} is not as this evaluation wrote it.",
                    "put the file back, or evaluate in another folder: --out OTHER",
                )
            samples.append(sample)
        done = len(samples) // n
        done = done if done == len(problems) else done // self.chunk * self.chunk
        if path.stat().st_size > ends[done * n]:
            os.truncate(path, ends[done * n])
        return samples[: done * n]
