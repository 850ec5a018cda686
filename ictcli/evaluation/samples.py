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
"""Problems per engine call in a training run's evaluations. The seeds depend on this number."""
PARSED = ("correct", "wrong")
BEGINNING = b'{"id": "'
"""The beginning of every sample's line. An incomplete last line is ignored only if it begins so."""


class Sample(Record):
    """The outcome of one response. If the data is private, only these fields are written."""

    model_config = ConfigDict(strict=True)

    id: str
    status: Status
    extracted: str
    tokens: int
    finished: bool
    """False if the response was cut at max_tokens."""


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
    """Return the JSON lines of `problems`, n for each, in order. `private` leaves out texts that
    may quote a question. RunFailedError unless every problem has n responses and n verdicts."""
    expected = n * len(problems)
    for count, what in ((len(rollouts), "responses"), (len(verdicts), "verdicts")):
        if count != expected:
            raise RunFailedError(
                f"The evaluation {name} has {count} {what}, but {expected} were expected "
                f"({len(problems)} problems, {n} each).",
                "the verifier or the engine must return one for each sample",
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
    """Whether samples that are already in the file are kept."""

    def at(self, temperature: float) -> "SampleFile":
        """Return the file of another temperature: `before@0.3.jsonl` for `before.jsonl`."""
        mark = f"@{temperature!r}".removesuffix(".0")
        return replace(self, path=self.path.with_stem(f"{self.path.stem}{mark}"))

    def append(self, samples: Sequence[dict[str, Any]]) -> None:
        """Append a chunk of samples, and sync the file to disk."""
        text = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
        with appended(self.path) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def recover(self, problems: Sequence[Problem], n: int, *, private: bool) -> list[Sample]:
        """Return the samples of complete chunks that are already in the file, in order, and remove
        the rest of the file. A missing file is created.

        A last line that a kill cut short is ignored. UserError if a line was changed or removed, or
        belongs to another benchmark; the file is then not changed."""
        path = self.path
        if not self.resume:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():  # touch would change the date of a finished file
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
                    f"{path}, line {number + 1} is not what this evaluation wrote.",
                    "restore the file, or evaluate in another folder: --out OTHER",
                )
            samples.append(sample)
        done = len(samples) // n
        done = done if done == len(problems) else done // self.chunk * self.chunk
        if path.stat().st_size > ends[done * n]:
            os.truncate(path, ends[done * n])
        return samples[: done * n]
