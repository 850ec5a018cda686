"""Running `ictcli` as real processes, quickly (see `server`)."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

TRAINED = (
    *("steps=6", "checkpoint.every=2", "eval.every=3"),
    *("record.rollouts_every=3", "record.probe_every=2"),
)
"""Settings of the run that many tests read (`trained`), beside `small`."""
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
    """Starts commands in forks of one warm process; a context manager."""

    def __init__(self, scratch: Path, requests: IO[str], answers: IO[str]) -> None:
        self._scratch, self._requests, self._answers = scratch, requests, answers
        self._numbers = itertools.count()
        self._running = 0  # the process that no one has waited for
        assert self._line() == "ready"

    @staticmethod
    @contextmanager
    def begun(scratch: Path) -> Generator[Processes]:
        """Those of a new process."""
        with subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET},
        ) as server:
            assert server.stdin and server.stdout
            processes = Processes(scratch, server.stdin, server.stdout)
            yield processes
            processes._end()

    @contextmanager
    def holding(self, model: Path) -> Generator[Processes]:
        """Those of a fork that holds a model loaded."""
        requests, answers = (self._scratch / name for name in ("requests", "answers"))
        for pipe in (requests, answers):
            os.mkfifo(pipe)
        self._ask({"model": str(model), "in": str(requests), "out": str(answers)})
        with requests.open("w") as asking, answers.open() as answering:
            (scratch := self._scratch / "held").mkdir()
            processes = Processes(scratch, asking, answering)
            yield processes
            processes._end()

    def _end(self) -> None:
        """Kill what a test that failed left running."""
        if self._running:
            with suppress(ProcessLookupError):
                os.kill(self._running, signal.SIGKILL)
            self.code()

    def _line(self) -> str:
        return self._answers.readline().strip()

    def _ask(self, request: dict[str, object]) -> None:
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()

    def start(
        self,
        *args: str | Path,
        folder: Path,
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
        }
        for stream in (out, err):
            stream.touch()
        self._ask(request)
        self._running = int(self._line())
        return Running(self, self._running, out, err)

    def run(self, *args: str | Path, folder: Path, **more: Any) -> Ended:
        """Run a command to its end; `more` as for `start`."""
        return self.start(*args, folder=folder, **more).wait()

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
