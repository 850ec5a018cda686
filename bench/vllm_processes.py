"""Processes for `vllm_runs.py`: commands in forks, on one rank or two."""

import os
import signal
import socket
import sys
import time
from pathlib import Path


def start(where: Path, *arguments: str, **env: str) -> int:
    """`ictcli ARGUMENTS` in a fork of this process, which has the libraries; what it says is in
    said.txt."""
    where.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid:
        return pid
    os.chdir(where)
    os.environ.update(env)
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    from ictcli.__main__ import main as ictcli

    sys.argv = ["ictcli", *arguments]
    try:
        ictcli()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(int(end.code or 0))
    finally:
        os._exit(9)


def run(where: Path, *arguments: str) -> int:
    return wait([start(where, *arguments)])[0]


def begin(where: Path, *arguments: str) -> list[int]:
    """The command on two ranks, each in a folder of its own."""
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    return [start(where / n, *arguments, **env, RANK=n, LOCAL_RANK=n) for n in ("0", "1")]


def wait(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def kill_at(path: Path, pid: int) -> None:
    """SIGKILL a process once a path is there."""
    until = time.monotonic() + 1200
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
