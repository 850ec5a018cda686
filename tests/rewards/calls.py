"""What workers are asked to do; a module of its own, because each of them imports it."""

import contextlib
import gc
import os
import signal
import struct
import time
from multiprocessing.connection import Connection
from typing import Any

from ictcli.rewards.workers import Limits, isolated

LIMITS, ONE = Limits(seconds=1.0, memory=0.5, workers=2), Limits(workers=1)
POWER = "(9**9**8).bit_length()"
"""In C, without letting another thread run."""
kept: list[bytes] = []


def act(source: str) -> Any:
    """What an expression is, such as a call of what stands here."""
    return eval(source)


def add(a: int, b: int) -> int:
    return a + b


def loop() -> None:
    while True:
        pass


def grow() -> None:
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(10**7))


def keep(size: int) -> int:
    kept.append(bytes(size))
    return size


def flood(size: int) -> None:
    """Announce a message of a size to the parent, in place of the result."""
    connections = [each for each in gc.get_objects() if isinstance(each, Connection)]
    os.write(connections[0].fileno(), struct.pack("!iQ", -1, size) + bytes(1000))
    time.sleep(1000)


def deep() -> None:
    deep()


def fail() -> None:
    raise ValueError("no\nsuch thing")


class StubbornError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("cannot be unpickled")

    def __str__(self) -> str:
        raise RuntimeError


def fail_stubbornly() -> None:
    raise StubbornError(1, 2)


def pid(seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return os.getpid()


def pids(limits: Limits = LIMITS, calls: int = 4, seconds: float = 0.1) -> set[int]:
    return {int(str(found)) for found in isolated(pid, [(seconds,)] * calls, limits)}


def busy(seconds: float) -> int:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return os.getpid()


def ignore(source: str) -> object:
    """Do something with every signal ignored or blocked and every exception caught."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        with contextlib.suppress(BaseException):
            act(source)
