"""Running `ictcli` as real processes, quickly (see `server`)."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code (negative: the signal that ended it), stdout, stderr."""

    code: int
    out: str
    err: str


def refusal(ended: Ended, code: int) -> str:
    """The sentence and the hint of a command that was refused with `code`, as one text."""
    assert "Traceback" not in ended.err
    found = re.search(r"^error: (.+[.?])\n\nhint: (.+)\n\Z", ended.err, re.MULTILINE)
    assert found, f"not a sentence and a hint: {ended.err!r}"
    assert ended.code == code, ended.err
    return f"{found[1]} {found[2]}"


class Processes:
    """Starts commands in forks of one warm process, which has its own `environment` from its start
    on and holds `model`; a context manager."""

    def __init__(self, model: Path | None, scratch: Path, **environment: str) -> None:
        self._scratch = scratch
        self._numbers = itertools.count()
        self._running = 0  # the process that no one has waited for
        self._server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py"), model or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET, **environment},
        )
        assert self._line() == "ready"

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._server.kill()
        self._server.wait()

    def _end(self) -> None:
        """Kill what a test that failed left running."""
        if self._running:
            os.kill(self._running, signal.SIGKILL)
            self.code()

    def _line(self) -> str:
        assert self._server.stdout
        return self._server.stdout.readline().strip()

    def start(
        self,
        *args: str | Path,
        folder: Path,
        largest_file: int = 0,
        terminal: str = "",
        stdin: str | Path = os.devnull,
        **environment: str | None,
    ) -> Running:
        """Start a command in `folder`, once the one before has ended. `terminal` is the path of
        one that it writes to; a variable of `environment` that is None is taken away."""
        self._end()
        number = next(self._numbers)
        out, err = (self._scratch / f"{number}.{name}" for name in ("out", "err"))
        request = {
            "args": [str(arg) for arg in args],
            "folder": str(folder),
            "out": terminal or str(out),
            "err": terminal or str(err),
            "in": str(stdin),
            "environment": environment,
            "largest_file": largest_file,
        }
        for stream in (out, err):
            stream.touch()
        assert self._server.stdin
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        self._running = int(self._line())
        return Running(self, self._running, out, err)

    def run(
        self,
        *args: str | Path,
        folder: Path,
        largest_file: int = 0,
        stdin: str | Path = os.devnull,
        **environment: str | None,
    ) -> Ended:
        """Run a command to its end."""
        return self.start(
            *args,
            folder=folder,
            largest_file=largest_file,
            terminal="",
            stdin=stdin,
            **environment,
        ).wait()

    def code(self) -> int:
        """The exit code of the command that runs now, when it has ended."""
        code, self._running = int(self._line()), 0
        return code


@dataclass(frozen=True)
class Running:
    """A command on its way."""

    processes: Processes
    pid: int
    out: Path
    err: Path

    def send(self, number: signal.Signals) -> None:
        assert self.pid > 1  # anything else is many processes, or an exit code read out of turn
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        code = self.processes.code()
        return Ended(code, self.out.read_text(encoding="utf-8"), self.err.read_text("utf-8"))
