"""The run's end of a tracker's pipe. No step waits for it; the end of a run waits some seconds."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from ictcli.files import appended
from ictcli.tracking import About, Outcome

CLOSE_TIMEOUT = 15.0
"""Seconds a tracker has at the end of a run."""


class Sender:
    """One tracker's process. `troubles` are sentences that were not yet shown."""

    def __init__(self, name: str, about: About) -> None:
        self.name = name
        self.troubles: list[str] = []
        self._failed = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(about)
        except Exception as error:
            self._fail(str(error))

    def _start(self, about: About) -> None:
        log = about.folder / "tracking" / f"{self.name}.log"
        log.parent.mkdir(exist_ok=True)
        with appended(log) as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ictcli.tracking.worker", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                start_new_session=True,  # no Ctrl-C; can be killed with its children
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        self._process.stdin.write(about.model_dump_json().encode() + b"\n")
        os.set_blocking(self._process.stdin.fileno(), False)

    def send(self, place: int) -> None:
        """Say that the run's files hold all figures up to a place. Where the pipe is full, the next
        place says it too."""
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(b"%d\n" % place)

    def finish(self) -> None:
        """Say that no place follows."""
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

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
        self._reader.join(1.0)

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
