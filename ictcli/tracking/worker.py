"""The process that holds one tracker: `python -m ictcli.tracking.worker NAME`, JSON lines on stdin.

The first line is an `About`, every other one an `Entry`. Places that the tracker has are skipped;
when it is first opened, the steps up to `done` are read from metrics.jsonl. The process ends when
stdin does, so also when the run is killed, and then has `LAST_SECONDS` to finish. Its output goes
to RUN/tracking/NAME.log; the run gets one line, an `Outcome`.
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
from ictcli.files import lock_of, write_json
from ictcli.runs.read import read_lines, read_record
from ictcli.runs.records import RunRecord, StepMetrics, StepTimings
from ictcli.tracking import About, Entry, Outcome, figures, open_tracker

LAST_SECONDS = 60
"""Time to finish when the run has ended."""
WAITING = 100
"""Lines read ahead of the library; beyond them the sender's queue fills, which counts what it
drops."""


def main() -> None:
    name = sys.argv[1]
    to_run = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to the log
    try:
        about = About.model_validate_json(sys.stdin.readline())
        lines = _read_ahead(sys.stdin)
        lock = about.folder / "tracking" / f".{name}.lock"
        with lock_of(lock).acquire(timeout=LAST_SECONDS + 30):
            _track(name, about, lines)
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


def _read_ahead(file: TextIO) -> Iterator[str]:
    """The file's lines, read in a thread. Also while a library hangs, the thread sees that the run
    has ended, and starts the clock of `_end_in_time`."""
    run = os.getppid()
    waiting: queue.Queue[str | None] = queue.Queue(WAITING)

    def put(line: str | None) -> bool:
        while True:
            try:
                waiting.put(line, timeout=1.0)
                return True
            except queue.Full:
                if line is None or os.getppid() != run:
                    return False

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in file:
                if not put(line):
                    break
        threading.Thread(target=_end_in_time, daemon=True).start()
        while not put(None):
            pass

    threading.Thread(target=read, daemon=True).start()
    return iter(waiting.get, None)


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


def _track(name: str, about: About, lines: Iterator[str]) -> None:
    path = about.folder / "tracking" / f"{name}.json"
    progress = read_record(path, Progress, strict=False)
    progress = progress or Progress(id=secrets.token_hex(4), place=-1)
    tracker = open_tracker(name, about.model_copy(update={"id": progress.id}))
    place = progress.place
    if tracker.rewinds and about.done < about.steps:
        place = min(place, about.done)
    write_json(path, {"id": progress.id, "place": place})

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a library may have changed it
    for entry in _entries(about, lines):
        if entry.place > place:
            tracker.log(entry.step, entry.values)
            place = entry.place
            write_json(path, {"id": progress.id, "place": place})
    tracker.close()


def _entries(about: About, lines: Iterator[str]) -> Iterator[Entry]:
    """The entries to log, in order: before training, steps from before a resume, the run's own."""
    earlier = _earlier(about)
    for text in lines:
        entry = Entry.model_validate_json(text)
        if entry.place > 0:
            yield from earlier
        yield entry


def _earlier(about: About) -> Iterator[Entry]:
    timings = {line.step: line for line in read_lines(about.folder / "timings.jsonl", StepTimings)}
    for line in read_lines(about.folder / "metrics.jsonl", StepMetrics):
        if (step := line.step) <= about.done:
            values = figures(line, timings.get(step, StepTimings(step=step)))
            yield Entry(place=step, step=step, values=values)


if __name__ == "__main__":
    main()
