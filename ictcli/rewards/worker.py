"""One call under its limits: what happens in a worker of `workers`."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")

_GIB = 2**30
IMPORT_SECONDS = 60.0
"""For a verifier's own imports, which its limits do not count."""
OUT_OF_MEMORY, BLOATED = 86, 87  # exit codes


@dataclass(frozen=True)
class Fault:
    """Why a call has no result: "took more than 5 s", "took more than 1 GiB", "ValueError: ...",
    "its worker died (signal 11)"."""

    kind: Literal["timeout", "memory", "error", "died"]
    message: str


@dataclass(frozen=True)
class Limits:
    """What a call may take: `seconds` from its start in a worker, `memory` in GiB on top of what
    the worker has. `workers` are processes; 0: one for each CPU it may use, at most 4. ValueError
    where a limit is not a positive number."""

    seconds: float = 5.0
    memory: float = 1.0
    workers: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 < self.memory < math.inf and self.workers >= 0):
            raise ValueError(f"limits are positive numbers, not {self}")

    def exceeded(self, kind: Literal["timeout", "memory"]) -> Fault:
        amount = f"{self.seconds:g} s" if kind == "timeout" else f"{self.memory:g} GiB"
        return Fault(kind, f"took more than {amount}")


class This:
    """What a worker knows of itself; sizes in bytes."""

    limits = Limits()
    idle = 0  # its size before the first call; 0: this is no worker
    imported = 0  # what verifiers brought along
    ceiling = math.inf  # of resident memory, during a call


def start(limits: Limits, parent: int) -> None:
    """Make a new worker ready, so that no call pays for imports."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # pebble's handler would wait for C code
    sys.stdout = sys.stderr
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    from ictcli.rewards.maths import symbols

    symbols.equal("\\frac{x}{2}", "\\sqrt{x}")
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    This.limits, This.idle = limits, _size()


def _watch(parent: int) -> None:
    """End this worker with its parent, and at its ceiling where RLIMIT_AS does nothing (macOS)."""
    while os.getppid() == parent:
        if _resident_peak() > This.ceiling:
            os._exit(OUT_OF_MEMORY)
        time.sleep(0.1)
    os._exit(1)


def _resident_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _size() -> int:
    """Of the address space, where it can be known; else 1."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1


def answer(call: bytes) -> bytes:
    """A call under its limits; its result or Fault."""
    limits = This.limits
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        signal.setitimer(signal.ITIMER_REAL, IMPORT_SECONDS)
        prepared = tried(_prepared, (call,), limits)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if isinstance(prepared, Fault):
        return pickle.dumps(prepared)
    size, memory = _size(), int(limits.memory * _GIB)
    if size > This.idle + This.imported + memory:  # earlier calls left that much
        time.sleep(0.2)  # pebble hears first that the call has started
        os._exit(BLOATED)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        This.ceiling = _resident_peak() + memory
        if size > 1:
            most = [size + memory, *(limit for limit in (soft, hard) if limit >= 0)]
            resource.setrlimit(resource.RLIMIT_AS, (min(most), hard))
        signal.setitimer(signal.ITIMER_REAL, limits.seconds)
        found = tried(_performed, (call,), limits)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        This.ceiling = math.inf
    return found if isinstance(found, bytes) else pickle.dumps(found)


def _prepared(call: bytes) -> None:
    """What a call needs imported; its size is the worker's own from then on."""
    _, prepare, arguments = pickle.loads(call)
    if prepare is not None:
        before = _size()
        prepare(*arguments)
        This.imported += max(_size() - before, 0)


def _performed(call: bytes) -> bytes:
    function, _, arguments = pickle.loads(call)
    return pickle.dumps(function(*arguments))


def tried(function: Callable[..., T], arguments: tuple[Any, ...], limits: Limits) -> T | Fault:
    try:
        return function(*arguments)
    except MemoryError:
        return limits.exceeded("memory")
    except BaseException as error:
        return described(error)


def described(error: BaseException) -> Fault:
    try:
        text = " ".join(str(error).split())[:200]
    except BaseException:
        text = ""
    return Fault("error", f"{type(error).__name__}: {text}".removesuffix(": "))
