"""The process that holds one tracker: `python -m ictcli.tracking.worker NAME`.

The only line on stdin is an `About`. All figures are read in the run's files, as they grow; those
that the tracker has are skipped. stdin ends when the run does, so also when it is killed, and the
process then has `LAST_SECONDS` to finish. Its output goes to RUN/tracking/NAME.log; the run gets
one line, why it failed, which is empty if it did not.
"""

import contextlib
import importlib
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ictcli.errors import install
from ictcli.evaluation.record import Evaluation
from ictcli.files import encodable, lock_of, write_json
from ictcli.runs.read import read_record
from ictcli.runs.records import RunRecord, SftMetrics, StepMetrics, StepTimings
from ictcli.tracking import About, LibraryRun, evaluation_figures, figures

LAST_SECONDS = 60
PAUSE = 0.5


def main() -> None:
    name = sys.argv[1]
    to_run = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to the log
    reason = ""
    try:
        about = About.model_validate_json(sys.stdin.buffer.readline())
        over = threading.Event()
        threading.Thread(target=_end_in_time, args=[sys.stdin.buffer, over], daemon=True).start()
        lock = about.folder / "tracking" / f".{name}.lock"
        with lock_of(lock).acquire(timeout=LAST_SECONDS + 30):
            _track(name, about, over)
    except ImportError as error:
        reason = f"{error}; {install(name)}"
    except BaseException as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    with contextlib.suppress(OSError):  # the run may have ended
        to_run.write(encodable(f"{reason}\n"))
        to_run.flush()
    os._exit(0)  # skips the libraries' exit handlers


def _end_in_time(stdin: BinaryIO, over: threading.Event) -> None:
    """Say when the run is `over`, also while a library hangs, and end this process `LAST_SECONDS`
    later: by an alarm, which needs no lock of Python's, or after a sleep if a library catches the
    alarm."""
    with contextlib.suppress(OSError, ValueError):
        stdin.read()
    over.set()
    signal.alarm(LAST_SECONDS)
    time.sleep(LAST_SECONDS + 1)
    os._exit(0)


class Progress(RunRecord):
    """RUN/tracking/NAME.json."""

    id: str
    place: int


def _track(name: str, about: About, over: threading.Event) -> None:
    path = about.folder / "tracking" / f"{name}.json"
    progress = read_record(path, Progress, strict=False)
    progress = progress or Progress(id=secrets.token_hex(4), place=-1)
    library: Any = importlib.import_module(f"ictcli.tracking.{name}")
    tracker: LibraryRun = library.open_tracker(about.model_copy(update={"id": progress.id}))
    logged = progress.place
    if tracker.rewinds and about.done < about.steps:
        logged = min(logged, about.done)
    write_json(path, {"id": progress.id, "place": logged})

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a library may have changed it
    for place, values in _recorded(about, over):
        if place > logged and values:
            tracker.log(min(place, about.steps), values)
            write_json(path, {"id": progress.id, "place": min(place, about.steps)})
    tracker.close()


def _recorded(about: About, over: threading.Event) -> Iterator[tuple[int, dict[str, float]]]:
    """What the run's files hold of each place, in order, until the run is over."""
    folder = about.folder

    def evaluated(label: str) -> dict[str, float]:
        evaluation = read_record(folder / "eval" / f"{label}.json", Evaluation, strict=False)
        return evaluation_figures(evaluation) if evaluation else {}

    yield 0, evaluated("before")
    first = about.supervised
    last = dict[str, float]()
    for line in islice(_lines(folder / "sft.jsonl", over), first):
        metrics = SftMetrics.model_validate_json(line)
        last = figures("sft/", metrics)
        if metrics.step < first:
            yield metrics.step, last
            last = {}
    timings = _lines(folder / "timings.jsonl", over)
    timing = StepTimings(step=0)
    lines = _lines(folder / "metrics.jsonl", over)
    begun = list(islice(lines, 1))
    if last and (begun or about.steps == first):  # with the evaluation that follows it
        yield first, last | evaluated("step-000000")
    for line in chain(begun, lines):
        metrics = StepMetrics.model_validate_json(line)
        step = metrics.step
        while timing.step < step and (text := next(timings, None)):
            timing = StepTimings.model_validate_json(text)
        values = figures("train/", metrics)
        if timing.step == step:
            values |= figures("time/", timing)
        yield first + step, values | evaluated(f"step-{step:06d}")
    yield about.steps + 1, evaluated("after")


def _lines(path: Path, over: threading.Event) -> Iterator[bytes]:
    """The whole lines of a file that grows, until the run is over."""
    place = 0
    while True:
        last = over.is_set()
        if path.exists():
            with path.open("rb") as file:
                file.seek(place)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # half a line; what follows would be taken for a line of its own
                    place += len(line)
                    yield line
        if last:
            return
        over.wait(PAUSE)


if __name__ == "__main__":
    main()
