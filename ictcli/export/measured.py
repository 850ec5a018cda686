"""The figures in a model card: those of the run's own evaluations, or of `ictcli eval`."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ictcli.errors import UserError
from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation, Result, unanswered
from ictcli.files.reading import parse_json, read_text
from ictcli.runs.public import public_name
from ictcli.runs.read import read_record
from ictcli.runs.records import Summary
from ictcli.tables import Column, Table
from ictcli.tables.numbers import signed, thousandths

Scores = Mapping[str, Interval | None]


@dataclass(frozen=True)
class Measured:
    """Scores before training and of the weights, and on what."""

    before: Scores
    after: Scores
    change: Mapping[str, Interval | None]
    """Paired by problem; empty where that is not known."""
    head: str
    """Of the column of the weights' scores."""
    problems: int
    bench: str
    n: int
    """Samples of each."""
    seen: int | None
    """Problems that were trained on; None: not known."""
    unanswered: str = ""
    """A sentence on samples without an answer, where there are many."""
    later: bool = False
    """Whether `ictcli eval` found it."""
    digest: str = ""
    """Checksum of the problems, where `ictcli eval` recorded it."""

    @property
    def scores(self) -> Table:
        """A row per metric."""
        columns = [
            Column[str]("metric", lambda name: name, str),
            Column[str]("before", self.before.get, thousandths, bounded=True),
            Column[str](self.head, self.after.get, thousandths, bounded=True),
        ]
        if self.change:
            columns.append(Column[str]("change", self.change.get, signed, bounded=True))
        return Table(columns, [name for name, score in self.after.items() if score is not None])


def by_run(run: Path, bench: str, step: int | None, summary: Summary | None) -> Measured | None:
    """What a run's own evaluations found of its last weights, or of those of a step; None where
    there were none."""
    if step is not None:
        names = ("before", f"step-{step:06d}")
        paths = (run / "eval" / f"{each}.json" for each in names)
        before, here = (read_record(path, Evaluation, strict=False) for path in paths)
        if here is None:
            return None
        start = before.scores if before and before.problems == here.problems else {}
        lost = unanswered(before, here).sentence if start and before else ""
        asked = (f"step {step}", here.problems, bench, here.n, 0)
        return Measured(start, here.scores, {}, *asked, unanswered=lost)
    if summary is None:
        return None
    lost = summary.unanswered.sentence if summary.unanswered else ""
    asked = ("after", summary.problems, bench, summary.samples_per_problem, 0)
    return Measured(summary.before, summary.after, summary.change, *asked, unanswered=lost)


def _is(model: str, other: str) -> bool:
    """Whether two names are of one model: a folder may be named from elsewhere."""
    there = os.path.exists(model)  # noqa: PTH110  # a name that is too long is no error of it
    return model == other or (there and Path(model).resolve() == Path(other))


def by_evaluation(folder: Path, weights: Collection[str], base: str, head: str) -> list[Measured]:
    """What `ictcli eval` found, in the folder it wrote, of weights with one of these checksums,
    beside the model `base` where it was evaluated too. UserError where it did not evaluate
    them."""
    try:
        text = json.dumps(parse_json(read_text(folder / "results.json")))
        entries = TypeAdapter(list[Result]).validate_json(text)
    except (OSError, ValueError) as error:  # pydantic's too
        raise UserError(
            f"{folder} has no results that can be read.", "the folder that ictcli eval names"
        ) from error
    found: list[Measured] = []
    for entry in entries:
        if entry.settings.fingerprint not in weights:
            continue
        first = [
            each for each in entries if each.benchmark == entry.benchmark and _is(each.model, base)
        ]
        known = entry.difference if first and entry.difference else None
        paired = known.scores if known and known.to == first[0].name else {}
        before, bench = first[0].scores if first else {}, public_name(entry.benchmark)
        if any((each.bench, each.n) == (bench, entry.n) for each in found):
            continue  # of the same weights in another folder
        lost = unanswered(first[0], entry).sentence if first else ""
        asked = (entry.problems, bench, entry.n, entry.trained_on, lost)
        digest = entry.settings.digest
        found.append(
            Measured(before, entry.scores, paired, head, *asked, later=True, digest=digest)
        )
    if not found:
        raise UserError(
            f"{folder} has no results of these weights.",
            "ictcli eval measures them; these are of "
            f"{', '.join(entry.name for entry in entries) or 'none'}, as it was then",
        )
    return found
