"""Evaluations on the screen: a bar while they run, tables at the end."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ictcli.console.plain import narrate
from ictcli.console.table import stdout_width, table
from ictcli.evaluation import tables
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
        """A callback for one benchmark of so many problems, told how many of how many are done,
        first at the start."""
        task = self._bar.add_task(name, total=problems, left="-")
        begun: tuple[int, float] | None = None
        said = time.perf_counter()

        def tell(done: int, total: int) -> None:
            nonlocal begun, said
            now = time.perf_counter()
            begun = begun or (done, now)  # what was done before took no time of this sitting
            fresh, left = done - begun[0], "-"
            if fresh:
                left = duration((now - begun[1]) / fresh * (total - done))
            self._bar.update(task, completed=done, total=total, left=left)
            if not self._live and now - said >= EVERY and done < total:
                narrate(f"{name}: {done}/{total} problems, {left} left")
                said = now

        return tell


def evaluations(
    found: Sequence[dict[str, Any]], folder: Path, *, as_json: bool, as_markdown: bool = False
) -> None:
    """Evaluations as JSON, as Markdown, or as tables that fit the terminal."""
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if as_markdown:
        print(tables.markdown(found), end="")
        return
    grids = tables.fitting(found, stdout_width())
    if (differs := tables.differences(found)) is not None:
        grids.append(differs)
    for number, grid in enumerate(grids):
        if number:
            print(flush=True)
        table(grid.columns, grid.rows, least=grid.width)
    err = Console(stderr=True)
    told = tables.caption(found)
    narrate("\n" + (textwrap.fill(told, err.width) if err.is_terminal else told))
    narrate(f"samples: {folder}")
