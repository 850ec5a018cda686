"""The run's end of a tracker's pipe. No step waits for it; the end of a run waits some seconds."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ictcli.files import appended
from ictcli.tracking import About, Entry, Outcome

QUEUE = 1000
"""Lines queued for a slow tracker; more are dropped and counted."""
CLOSE_TIMEOUT = 15.0
"""Seconds a tracker has at the end of a run."""


class Sender:
    """One tracker's process. `troubles` are sentences that were not yet shown."""

    def __init__(self, name: str, folder: Path, run: About) -> None:
        self.name = name
        self.folder = folder
        self.troubles: list[str] = []
        self._dropped = 0
        self._failed = False
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUE)
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        try:
            self._start(run)
        except Exception as error:
            self._fail(str(error))

    def _start(self, run: About) -> None:
        log = self.folder / "tracking" / f"{self.name}.log"
        log.parent.mkdir(exist_ok=True)
        with appended(log) as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ictcli.tracking.worker", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # no Ctrl-C; can be killed with its children
            )
        self._lines.put(run.model_dump_json())
        for work in (self._write, self._read):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()

    def put(self, entry: Entry) -> None:
        """Queue an entry, or drop it where `QUEUE` entries wait."""
        if self._process is None or self._failed:
            return
        try:
            self._lines.put_nowait(entry.model_dump_json())
        except queue.Full:
            self._dropped += 1

    def finish(self) -> None:
        """Queue the end of the entries."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)

    def close(self, until: float) -> None:
        """Let the tracker finish until `time.monotonic()` reaches this, then kill it."""
        if (process := self._process) is None:
            return
        try:
            process.wait(0.5 if self._failed else max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._fail(f"it did not finish within {CLOSE_TIMEOUT:g} s and was ended")
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        for thread in self._threads:
            thread.join(1.0)
        if self._dropped:
            self.troubles.append(
                f"{self.name} was too slow for {self._dropped} entries, which it lacks; "
                "metrics.jsonl has them."
            )

    def _write(self) -> None:
        """Write queued lines to the process; runs in a thread."""
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        """Read the process's result; runs in a thread."""
        assert self._process is not None and self._process.stdout is not None
        outcome = Outcome()
        with contextlib.suppress(OSError, ValueError):
            outcome = Outcome.model_validate_json(self._process.stdout.readline())
        if not outcome.done:
            self._fail(outcome.failed)

    def _fail(self, reason: str) -> None:
        """Report the first failure only; later ones follow from it."""
        if not self._failed:
            self._failed = True
            self.troubles.append(
                f"{self.name} does not log this run ({reason.rstrip('.')}); training goes on, and "
                "metrics.jsonl has all figures."
            )
