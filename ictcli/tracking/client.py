"""The process that holds one tracker: `python -m ictcli.tracking.client NAME`, JSON lines on stdin.

The first line is the run (`Feed`), each other one `{"place", "step", "values"}`: place 0 is before
training, n step n, one more than the steps the end. Places that the tracker has are passed over; on
its first opening the steps before `done` come from metrics.jsonl. Ends with its stdin, so also when
the run is killed; then it keeps what it was told. What it says goes to RUN/tracking/NAME.log, and
one line `{"failed": sentence}` or `{"done": true}` to the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock

from ictcli.files import write_json
from ictcli.tracking import About, Tracker, figures, open_tracker

LAST_SECONDS = 60
"""To keep what is not kept yet, when the run has ended."""


def main() -> None:
    name = sys.argv[1]
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints does it into the log
    try:
        run = json.loads(sys.stdin.readline())
        folder = Path(run["folder"])
        with FileLock(folder / "tracking" / f".{name}.lock", timeout=LAST_SECONDS + 30):
            _track(name, folder, run, sys.stdin)
        said: dict[str, Any] = {"done": True}
    except ImportError as error:
        said = {"failed": f'{error}; pip install "ictcli[{name}]"'}
    except BaseException as error:
        said = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    with contextlib.suppress(OSError):  # the run may have ended
        told.write(json.dumps(said) + "\n")
        told.flush()
    os._exit(0)  # no library's own farewell


def _track(name: str, folder: Path, run: dict[str, Any], lines: TextIO) -> None:
    path = folder / "tracking" / f"{name}.json"
    state: dict[str, Any] = {"id": secrets.token_hex(4), "place": -1}
    with contextlib.suppress(OSError, ValueError):
        state |= json.loads(path.read_text(encoding="utf-8"))
    about = About(folder, str(state["id"]), run["done"], run["recipe"], run["environment"])
    tracker = open_tracker(name, about)
    if tracker.rewinds and run["done"] < run["steps"]:
        state["place"] = min(state["place"], run["done"])
    write_json(path, state)

    def keep(entry: dict[str, Any]) -> None:
        if entry["place"] > state["place"]:
            tracker.log(entry["step"], entry["values"])
            state["place"] = entry["place"]
            write_json(path, state)

    _until_the_end(tracker, _entries(folder, run["done"], lines), keep)


def _until_the_end(tracker: Tracker, entries: Iterator[dict[str, Any]], keep: Any) -> None:
    for entry in entries:
        keep(entry)
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LAST_SECONDS)  # the kernel ends it, whatever the library waits for
    tracker.close()


def _entries(folder: Path, done: int, lines: TextIO) -> Iterator[dict[str, Any]]:
    """What is to be logged, in order: the model before training, steps of earlier sittings, and
    what the run tells."""
    earlier = _earlier(folder, done)
    for text in lines:
        entry = json.loads(text)
        if entry["place"] > 0:
            yield from earlier
        yield entry


def _earlier(folder: Path, done: int) -> Iterator[dict[str, Any]]:
    timings = {line["step"]: line for line in _lines(folder / "timings.jsonl")}
    for line in _lines(folder / "metrics.jsonl"):
        if (step := line["step"]) <= done:
            values = figures(line, timings.get(step, {}))
            yield {"place": step, "step": step, "values": values}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        for text in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if text.endswith("\n"):
                yield json.loads(text)


if __name__ == "__main__":
    main()
