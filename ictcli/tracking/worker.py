"""The process that holds one tracker: `python -m ictcli.tracking.worker NAME`.

The first line on stdin is an `About`; every other one a place up to which the run's files hold all
figures, which are read there. Places that the tracker has are skipped. The process ends when stdin
does, so also when the run is killed, and then has `LAST_SECONDS` to finish. Its output goes to
RUN/tracking/NAME.log; the run gets one line, an `Outcome`.
"""

import contextlib
import os
import queue
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from ictcli.errors import install
from ictcli.evaluation.record import Evaluation
from ictcli.files import lock_of, write_json
from ictcli.runs.read import read_record
from ictcli.runs.records import RunRecord, StepMetrics, StepTimings
from ictcli.tracking import About, Outcome, evaluation_figures, figures, open_tracker

LAST_SECONDS = 60
"""Time to finish when the run has ended."""


def main() -> None:
    name = sys.argv[1]
    to_run = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to the log
    try:
        about = About.model_validate_json(sys.stdin.readline())
        places = _read_ahead(sys.stdin)
        lock = about.folder / "tracking" / f".{name}.lock"
        with lock_of(lock).acquire(timeout=LAST_SECONDS + 30):
            _track(name, about, places)
        outcome = Outcome(done=True)
    except ImportError as error:
        outcome = Outcome(failed=f"{error}; {install(name)}")
    except BaseException as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        outcome = Outcome(failed=reason)
    with contextlib.suppress(OSError):  # the run may have ended
        to_run.write(outcome.model_dump_json() + "\n")
        to_run.flush()
    os._exit(0)  # skips the libraries' exit handlers


def _read_ahead(file: TextIO) -> Iterator[int]:
    """The places, read in a thread. Also while a library hangs, the thread sees that the run has
    ended, and starts the clock of `_end_in_time`."""
    places: queue.Queue[int] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in file:
                places.put(int(line))
        places.put(-1)
        _end_in_time()

    threading.Thread(target=read, daemon=True).start()
    return iter(places.get, -1)


def _end_in_time() -> None:
    """End this process after `LAST_SECONDS`: by an alarm, which needs no lock of Python's, or after
    a sleep if a library catches the alarm."""
    signal.alarm(LAST_SECONDS)
    time.sleep(LAST_SECONDS + 1)
    os._exit(0)


class Progress(RunRecord):
    """RUN/tracking/NAME.json."""

    id: str
    place: int
    """Of the last entry that was logged."""


def _track(name: str, about: About, places: Iterator[int]) -> None:
    path = about.folder / "tracking" / f"{name}.json"
    progress = read_record(path, Progress, strict=False)
    progress = progress or Progress(id=secrets.token_hex(4), place=-1)
    tracker = open_tracker(name, about.model_copy(update={"id": progress.id}))
    logged = progress.place
    if tracker.rewinds and about.done < about.steps:
        logged = min(logged, about.done)
    write_json(path, {"id": progress.id, "place": logged})

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a library may have changed it
    recorded, read = _recorded(about), -1
    for latest in places:
        while read < latest:
            read, values = next(recorded)
            if read > logged and values:
                tracker.log(min(read, about.steps), values)
                logged = read
                write_json(path, {"id": progress.id, "place": logged})
    tracker.close()


def _recorded(about: About) -> Iterator[tuple[int, dict[str, float]]]:
    """What the run's files hold of each place, in order; read when it is asked for, for it may not
    be there before."""
    folder = about.folder

    def evaluated(label: str) -> dict[str, float]:
        evaluation = read_record(folder / "eval" / f"{label}.json", Evaluation, strict=False)
        return evaluation_figures(evaluation) if evaluation else {}

    yield 0, evaluated("before")
    timing = StepTimings(step=0)
    with (folder / "metrics.jsonl").open() as metrics, (folder / "timings.jsonl").open() as timings:
        for step in range(1, about.steps + 1):
            line = StepMetrics.model_validate_json(metrics.readline())
            while timing.step < step and (text := timings.readline()):
                timing = StepTimings.model_validate_json(text)
            values = figures(line, timing if timing.step == step else StepTimings(step=step))
            yield step, values | evaluated(f"step-{step:06d}")
    yield about.steps + 1, evaluated("after")


if __name__ == "__main__":
    main()
