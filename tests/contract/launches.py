"""Launches of several processes on this machine, as forks of one that holds torch loaded: starting
Python and importing torch takes seconds."""

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

LOADED = (
    *("pytest", "scipy.stats", "peft", "transformers.models.qwen2.modeling_qwen2"),
    *("ictcli.console", "ictcli.train", "ictcli.cli.train", "ictcli.cli.resume"),
    *("ictcli_torch.engine", "ictcli_torch.adapter", "ictcli_torch.ranks", "ictcli_torch.shard"),
)
"""What a rank may need of all that starts no thread: threads do not survive a fork. MLX starts
some, so its ranks load it themselves."""
QUIET = {"OMP_NUM_THREADS": "1"}
LONG = 300.0
"""Seconds after which a test is stuck."""


@cache
def forks() -> ForkServerContext:
    """The warm process, one for all tests of this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LOADED])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        forkserver.ensure_running()
    return context


@dataclass(frozen=True)
class Rank:
    """A process of a launch."""

    process: BaseProcess
    out: Path
    """What it says, on stdout and stderr."""

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def says(self, words: str) -> None:
        """Wait until it has said this."""
        last = time.monotonic() + LONG
        while words not in self.out.read_text():
            assert self.process.is_alive() and time.monotonic() < last, self.out.read_text()
            time.sleep(0.02)

    def wait(self) -> tuple[int, str]:
        """How it ends, and what it said."""
        self.process.join(LONG)
        assert self.process.exitcode is not None, self.out.read_text()
        return self.process.exitcode, self.out.read_text()


def start(
    folder: Path, out: Path, command: list[str], env: dict[str, str], program: str = "ictcli"
) -> Rank:
    """Start a command in a folder; a program other than ictcli is a module with a `main`."""
    folder.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    arguments = (str(folder), str(out), [program, *command], QUIET | env)
    process = forks().Process(target=become, args=arguments)
    process.start()
    return Rank(process, out)


def become(folder: str, out: str, command: list[str], env: dict[str, str]) -> None:
    """Turn this fork into the command."""
    gc.freeze()  # no collection goes through the libraries' objects
    descriptor = os.open(out, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    # streams of the server know the kind of its own files: a command opens its own, as Python does
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.update(env)
    sys.argv = command
    program = command[0] + (".__main__" if command[0] == "ictcli" else "")
    importlib.import_module(program).main()


def launch(
    kind: str, folder: Path, command: list[str], ranks: int = 2, program: str = "ictcli"
) -> list[Rank]:
    """The command on each rank, each in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        start(folder / f"rank-{rank}", folder / f"rank-{rank}.txt", command, env, program)
        for rank, env in enumerate(environments(kind, folder, ranks))
    ]


def finish(started: list[Rank]) -> list[tuple[int, str]]:
    with ending(started):
        return [one.wait() for one in started]


@contextlib.contextmanager
def ending(started: list[Rank]) -> Iterator[None]:
    """After it none of them is left."""
    try:
        yield
    finally:
        for one in started:
            one.process.kill()
            one.process.join()


def complete(started: list[Rank]) -> None:
    """All ranks end well, and but for the first they say nothing."""
    (first, said), *others = finish(started)
    assert first == 0, (said, others)
    assert all(end == (0, "") for end in others), others


def environments(kind: str, folder: Path, ranks: int) -> list[dict[str, str]]:
    """What a launcher sets for each rank: mlx.launch with its ring, or torchrun."""
    ports = free_ports(ranks)
    if kind == "mlx":
        hosts = folder / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
        return [{"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)} for rank in range(ranks)]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "WORLD_SIZE": str(ranks)}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
