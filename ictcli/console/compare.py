"""The output of `ictcli compare`: the plan, the progress of the runs, and the result."""

import contextlib
from collections.abc import Callable, Collection, Generator
from pathlib import Path

from rich.text import Text

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import tables, words
from ictcli.compare.report.drawing import styles_of
from ictcli.compare.time_estimate import ComparisonEstimate, RunEstimate
from ictcli.console.lines import narrate, narrate_paragraph
from ictcli.console.table import Screen, print_json, print_noted, print_table
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, setting
from ictcli.text import duration, one_line

RUN_COLUMNS = [
    Column[RunEstimate]("run", lambda run: run.folder, str),
    Column[RunEstimate]("method", lambda run: run.label, str),
    Column[RunEstimate]("seed", lambda run: run.seed, setting),
    Column[RunEstimate]("steps", lambda run: run.steps, setting),
    Column[RunEstimate]("lr", lambda run: "tuned" if run.lr is None else f"{run.lr:g}", str),
    Column[RunEstimate](
        "time", lambda run: "finished" if run.finished else duration(run.seconds), str
    ),
]


def planned(estimate: ComparisonEstimate, jobs: int, *, as_json: bool) -> None:
    """Print the runs of a comparison with the time of each and in total, as a table or JSON."""
    if as_json:
        print_json({"jobs": jobs, **estimate.model_dump(mode="json")})
        return
    print_table(Table(RUN_COLUMNS, estimate.runs))
    left = sum(not run.finished for run in estimate.runs)
    if not left:
        narrate(f"{len(estimate.runs)} runs, all of them finished.")
        return
    at_once = f", {estimate.at_once} at a time" if estimate.at_once > 1 else ""
    if estimate.at_once < jobs:
        at_once += f" (too few CPU cores for --jobs {jobs})"
    timed = "one run" if estimate.kinds == 1 else f"{estimate.kinds} kinds of run"
    narrate_paragraph(
        f"{counted(len(estimate.runs), 'run')}, {left} of them unfinished: about "
        f"{duration(estimate.seconds)}{at_once}, estimated by timing a step of {timed}."
    )


def comparison(
    c: Comparison, folder: Path, said: Collection[str], *, as_json: bool, details: bool
) -> None:
    """Print the result of a comparison as JSON, or as a table and a sentence; with `details`, also
    the table of differences. Notes in `said`, which were printed before, are left out."""
    if as_json:
        print_json(c.model_dump(mode="json"))
        return
    styles, _ = styles_of(c.variants)
    more = [tables.differences(c, tests=False)] if details else []
    print_noted(tables.summary(c, styles), *more)
    for line in c.failed:
        narrate(f"failed: {line}")
    for line in c.notes:
        if line not in said:
            narrate(f"note: {line}")
    narrate_paragraph(words.answer(c))
    narrate("", f"runs: {folder}", f"report: {folder / 'report.html'}")


@contextlib.contextmanager
def status(*, drawn: bool) -> Generator[Callable[[str], None]]:
    """Yield a function that shows a text as the status line on a terminal, instead of the previous
    text; an empty text removes the line. Without a terminal it does nothing."""
    screen = Screen(stderr=True)
    if not (drawn and screen.is_terminal and not screen.is_dumb_terminal):
        yield lambda text: None
        return
    line = screen.status("")

    def show(text: str) -> None:
        line.update(Text(one_line(text)))
        line.start() if text else line.stop()

    try:
        yield show
    finally:
        line.stop()
