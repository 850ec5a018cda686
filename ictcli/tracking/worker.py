"""The process that holds one tracker: `python -m ictcli.tracking.worker NAME`, JSON lines on stdin.

The first line is the run, every other one an entry `{"place", "step", "values"}`: place 0 is before
training, n is step n, and the number of steps + 1 is the end. Places that the tracker has are
skipped; when it is first opened, the steps up to `done` are read from metrics.jsonl. The process
ends when stdin does, so also when the run is killed, and then has `LAST_SECONDS` to finish. Its
output goes to RUN/tracking/NAME.log; the run gets one line, `{"failed": sentence}` or
`{"done": true}`.
"""

import contextlib
import json
import os
import queue
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock

from ictcli.files import write_json
from ictcli.runs.read import read_lines
from ictcli.runs.records import StepMetrics, StepTimings
from ictcli.tracking import About, figures, open_tracker

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
        run = json.loads(sys.stdin.readline())
        lines = _read_ahead(sys.stdin)
        folder = Path(run["folder"])
        with FileLock(folder / "tracking" / f".{name}.lock", timeout=LAST_SECONDS + 30):
            _track(name, folder, run, lines)
        result: dict[str, Any] = {"done": True}
    except ImportError as error:
        result = {"failed": f'{error}; pip install "ictcli[{name}]"'}
    except BaseException as error:
        result = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    with contextlib.suppress(OSError):  # the run may have ended
        to_run.write(json.dumps(result) + "\n")
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
    a sleep where there is no alarm or a library catches it."""
    if hasattr(signal, "alarm"):
        signal.alarm(LAST_SECONDS)
    time.sleep(LAST_SECONDS + 1)
    os._exit(0)


def _track(name: str, folder: Path, run: dict[str, Any], lines: Iterator[str]) -> None:
    path = folder / "tracking" / f"{name}.json"
    state: dict[str, Any] = {"id": secrets.token_hex(4), "place": -1}
    with contextlib.suppress(OSError, ValueError):
        state |= json.loads(path.read_text(encoding="utf-8"))
    about = About(folder, str(state["id"]), run["done"], run["recipe"], run["environment"])
    tracker = open_tracker(name, about)
    if tracker.rewinds and run["done"] < run["steps"]:
        state["place"] = min(state["place"], run["done"])
    write_json(path, state)

    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a library may have changed it
    for entry in _entries(folder, run["done"], lines):
        if entry["place"] > state["place"]:
            tracker.log(entry["step"], entry["values"])
            state["place"] = entry["place"]
            write_json(path, state)
    tracker.close()


def _entries(folder: Path, done: int, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The entries to log, in order: before training, steps from before a resume, the run's own."""
    earlier = _earlier(folder, done)
    for text in lines:
        entry = json.loads(text)
        if entry["place"] > 0:
            yield from earlier
        yield entry


def _earlier(folder: Path, done: int) -> Iterator[dict[str, Any]]:
    timings = {line.step: line for line in read_lines(folder / "timings.jsonl", StepTimings)}
    for line in read_lines(folder / "metrics.jsonl", StepMetrics):
        if (step := line.step) <= done:
            values = figures(line, timings.get(step, StepTimings(step=step)))
            yield {"place": step, "step": step, "values": values}


if __name__ == "__main__":
    main()
