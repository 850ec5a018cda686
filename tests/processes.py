"""Running `ictcli` as real processes, quickly: as forks of one that has imported `warm`. To start
Python and import torch takes seconds."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

TRAINED = ("steps=6", "checkpoint.every=2", "eval.every=3", "record.rollouts_every=3")
"""Settings of the run that many tests read (`trained`), beside `small`."""
Small = tuple[str, ...]
NUMBERS = itertools.count()
STARTED: list[Running] = []
QUIET = {"OMP_NUM_THREADS": "1"}
LONG = 300.0
"""Seconds after which a test is stuck."""


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


def fresh(*args: str | Path, folder: Path, **environment: str | None) -> Ended:
    """A command in a Python of its own, which reads its environment as it starts."""
    env = {name: value for name, value in (os.environ | environment).items() if value is not None}
    command = [sys.executable, "-m", "ictcli", *args]
    found = subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8")
    return Ended(found.returncode, found.stdout, found.stderr)


def wait_until(true: Callable[[], object], every: float = 0.002) -> None:
    """Ask every so many seconds until the answer is true."""
    until = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < until
        time.sleep(every)


def gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may wait for it here."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


@dataclass(frozen=True)
class Running:
    """A process on its way, and the files that it writes to."""

    process: BaseProcess
    out: Path
    err: Path

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def says(self, words: str) -> None:
        """Wait until it has said this."""
        wait_until(lambda: words in self.out.read_text() or not self.process.is_alive(), 0.02)
        assert words in self.out.read_text(), self.out.read_text()

    def code(self) -> int:
        """How it ends."""
        self.process.join(LONG)
        assert self.process.exitcode is not None, self.err.read_text("utf-8")
        return self.process.exitcode

    def wait(self) -> Ended:
        return Ended(self.code(), self.out.read_text("utf-8"), self.err.read_text("utf-8"))

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@cache
def forks() -> ForkServerContext:
    """The warm process, one for all tests of this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warm"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        forkserver.ensure_running()
    return context


def start(
    program: str,
    *args: str,
    folder: Path,
    out: Path,
    err: Path,
    stdin: str = os.devnull,
    terminal: str = "",
    environment: Mapping[str, str | None],
) -> Running:
    """Start a module's `main` in a folder; it writes to the files, or to the terminal at a path."""
    for file in (out, err):
        file.touch()
    streams = (stdin, terminal or str(out), terminal or str(err))
    given = (str(folder), streams, [program, *args], dict(environment))
    process = forks().Process(target=become, args=given)
    process.start()
    return Running(process, out, err)


def become(
    folder: str, streams: tuple[str, ...], command: list[str], environment: dict[str, str | None]
) -> None:
    """Turn this fork into the command."""
    for descriptor, path in enumerate(streams):
        mode = os.O_WRONLY | os.O_APPEND if descriptor else os.O_RDONLY
        os.dup2(os.open(path, mode), descriptor)
    # streams of the server know the kind of its own files: a command opens its own, as Python does
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    for name, value in environment.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    sys.argv = command
    program = command[0] + (".__main__" if command[0] == "ictcli" else "")
    importlib.import_module(program).main()


class Processes:
    """Commands of ictcli, one at a time."""

    def __init__(self, scratch: Path, folder: Path | None = None) -> None:
        self.scratch, self.folder = scratch, folder

    def here(self, folder: Path) -> Processes:
        """The same in a folder."""
        return Processes(self.scratch, folder)

    def start(
        self,
        *args: str | Path,
        folder: Path | None = None,
        terminal: str = "",
        stdin: str | Path = os.devnull,
        **environment: str | None,
    ) -> Running:
        """Start a command. `terminal` is the path of one that it writes to; a variable of
        `environment` that is None is taken away."""
        self.end()
        place, number = folder or self.folder, next(NUMBERS)
        assert place
        out, err = (self.scratch / f"{number}.{name}" for name in ("out", "err"))
        how: Any = {"stdin": str(stdin), "terminal": terminal, "environment": environment}
        STARTED.append(start("ictcli", *map(str, args), folder=place, out=out, err=err, **how))
        return STARTED[0]

    @staticmethod
    def end() -> None:
        """Kill what a test that failed left running."""
        while STARTED:
            STARTED.pop().kill()

    def run(self, *args: str | Path, **more: Any) -> Ended:
        """Run a command to its end; `more` as for `start`."""
        return self.start(*args, **more).wait()

    def done(self, *args: str | Path, **more: Any) -> Ended:
        """The same of one that ends well."""
        ended = self.run(*args, **more)
        assert ended.code == 0, ended.err
        return ended

    def refused(self, *args: str | Path, code: int = 2, **more: Any) -> str:
        """The sentence and the hint of one that is refused."""
        return refusal(self.run(*args, **more), code)

    def json(self, *args: str | Path, **more: Any) -> Any:
        """The data that it prints."""
        return json.loads(self.done(*args, "--json", **more).out)


def launch(
    folder: Path, command: list[str], ranks: int = 2, program: str = "ictcli"
) -> list[Running]:
    """The command on each rank, each in a folder of its own; all it says is in one file."""
    started = list[Running]()
    for rank, environment in enumerate(environments(ranks)):
        own, said = folder / f"rank-{rank}", folder / f"rank-{rank}.txt"
        own.mkdir(parents=True, exist_ok=True)
        said.write_text("")
        given = {"folder": own, "out": said, "err": said, "environment": environment}
        started.append(start(program, *command, **given))
    return started


def finish(started: list[Running]) -> list[tuple[int, str]]:
    with ending(started):
        return [(each.code(), each.out.read_text()) for each in started]


@contextlib.contextmanager
def ending(started: list[Running]) -> Iterator[None]:
    """After it none of them is left."""
    try:
        yield
    finally:
        for each in started:
            each.kill()


def complete(started: list[Running]) -> None:
    """All ranks end well, and but for the first they say nothing."""
    (first, said), *others = finish(started)
    assert first == 0, (said, others)
    assert all(end == (0, "") for end in others), others


def environments(ranks: int) -> list[dict[str, str]]:
    """What torchrun sets for each rank; alone nothing."""
    if ranks == 1:
        return [{}]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]
