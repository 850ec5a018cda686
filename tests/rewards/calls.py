"""What workers are asked to do; a module of its own, because each of them imports it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from ictcli.rewards.workers import Fault, Limits, isolated

LIMITS, ONE = Limits(seconds=1.0, memory=0.5, workers=2), Limits(workers=1)
kept: list[bytes] = []


def add(a: int, b: int) -> int:
    return a + b


def loop() -> None:
    while True:
        pass


def power() -> int:
    return (9**9**8).bit_length()  # in C, without letting another thread run


def grow(*_: object) -> None:
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(10**7))


def keep(size: int) -> int:
    kept.append(bytes(size))
    return size


def deep() -> None:
    deep()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def cut() -> None:
    os.closerange(3, 100)
    rest()


def leave() -> None:
    os._exit(3)


def fail() -> None:
    raise ValueError("no\nsuch thing")


class StubbornError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("cannot be unpickled")

    def __str__(self) -> str:
        raise RuntimeError


def fail_stubbornly() -> None:
    raise StubbornError(1, 2)


def unpicklable() -> Callable[[], int]:
    return lambda: 1


def pid(seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return os.getpid()


def pids(limits: Limits = LIMITS, calls: int = 4, seconds: float = 0.1) -> set[int]:
    """Of the workers that are there."""
    return {int(str(found)) for found in isolated(pid, [(seconds,)] * calls, limits)}


def nested() -> list[int | Fault]:
    return isolated(add, [(1, 2)])


def busy(seconds: float) -> int:
    """Use CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return os.getpid()


def ignore(name: str) -> object:
    """Do something with every signal ignored or blocked and every exception caught."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        with contextlib.suppress(BaseException):
            globals()[name]()


def rest() -> None:
    time.sleep(1000)


def act(name: str, *arguments: Any) -> Any:
    return globals()[name](*arguments)
