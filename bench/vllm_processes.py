"""Processes for `vllm_runs.py`: commands in forks, on one rank or two, and vLLM's server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
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
    """SIGKILL a process, and its group if it leads one, once a path is there."""
    until = time.monotonic() + 1200
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.05)
    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def serve(model: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """vLLM's server, once it answers. (`vllm serve` of the wheel for CPUs does not start: it asks
    for the version of a package `vllm`.)"""
    module = "vllm.entrypoints.openai.api_server"
    program = [sys.executable, "-m", module, "--model", str(model)]
    options = [
        *("--port", str(port), "--load-format", "dummy", "--logprobs-mode", "processed_logprobs"),
        *("--hf-overrides", json.dumps({"tie_word_embeddings": False}), "--enforce-eager"),
        *("--dtype", "float32", "--kv-cache-memory-bytes", str(1 << 28)),
    ]
    env = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("ab") as said:
        server = subprocess.Popen(
            [*program, *options], env=env, stdout=said, stderr=said, start_new_session=True
        )
    while server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()
            return server
        except OSError:
            time.sleep(1)
    sys.exit(f"vllm serve ended with {server.returncode}: {log.read_text()[-2000:]}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
