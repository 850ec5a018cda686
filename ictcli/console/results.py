"""Evaluations on the screen: a bar while they run, tables at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ictcli.console.plain import narrate, narrate_paragraph
from ictcli.console.table import print_json, stdout_width, table
from ictcli.evaluation import report
from ictcli.evaluation.results import Result
from ictcli.text import duration

EVERY = 30.0
"""Seconds between lines of progress where stderr is no terminal."""


class EvalProgress:
    """A bar of problems done, with the time left; where stderr is no terminal a line now and
    then."""

    def __init__(self) -> None:
        err = Console(stderr=True)
        self._live = err.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} problems, {task.fields[left]} left"),
            console=err,
            disable=not self._live,
            transient=True,
        )

    def __enter__(self) -> EvalProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def of(self, name: str, problems: int) -> Callable[[int, int], None]:
        """A callback for one benchmark, called with the problems done and all, first at the
        start."""
        task = self._bar.add_task(name, total=problems, left="-")
        start: tuple[int, float] | None = None
        last_line = time.perf_counter()

        def update(done: int, total: int) -> None:
            nonlocal start, last_line
            now = time.perf_counter()
            start = start or (done, now)  # what was done earlier took no time of this process
            fresh, left = done - start[0], "-"
            if fresh:
                left = duration((now - start[1]) / fresh * (total - done))
            self._bar.update(task, completed=done, total=total, left=left)
            if not self._live and now - last_line >= EVERY and done < total:
                narrate(f"{name}: {done}/{total} problems, {left} left")
                last_line = now

        return update


def evaluations(
    results: Sequence[Result], folder: Path, *, as_json: bool, as_markdown: bool = False
) -> None:
    """Evaluations as JSON, as Markdown, or as tables that fit the terminal."""
    if as_json:
        print_json([result.model_dump(mode="json") for result in results])
        return
    if as_markdown:
        print(report.markdown(results), end="")
        return
    parts = report.fitting(results, stdout_width())
    if (differences := report.differences(results)) is not None:
        parts.append(differences)
    for number, part in enumerate(parts):
        if number:
            print(flush=True)
        table(part.columns, part.rows, least=part.width)
    narrate_paragraph(report.caption(results))
    narrate(f"samples: {folder}")
