"""The worker side of `workers`: one call within its limits."""

import contextlib
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")

_GIB = 2**30
IMPORT_SECONDS = 60.0
"""Time for a verifier's imports, which its limits do not include."""
OUT_OF_MEMORY, BLOATED = 86, 87  # exit codes


@dataclass(frozen=True)
class Fault:
    """Why a call has no result. Messages: "took more than 5 s", "took more than 1 GiB",
    "ValueError: ...", "its worker died (signal 11)"."""

    kind: Literal["timeout", "memory", "error", "died"]
    message: str


@dataclass(frozen=True)
class Limits:
    """Limits of a call: `seconds` from its start in a worker, and `memory` in GiB on top of the
    worker's own. `workers` is the number of processes; 0 = one per usable CPU, at most 4.
    ValueError if a limit is not a positive number."""

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
    """State of this worker process; sizes in bytes."""

    limits = Limits()
    idle = 0  # size before the first call; 0 = not a worker
    imported = 0  # size of what verifiers imported
    ceiling = math.inf  # of resident memory, during a call


def start(limits: Limits, parent: int, sources: Mapping[Path, bytes]) -> None:
    """Prepare a new worker: hand it the plugins' `sources`, import sympy, so that no call pays for
    it, and start the watch."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # pebble's handler would wait for C code
    sys.stdout = sys.stderr
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    from ictcli.recipe import plugins
    from ictcli.rewards.maths import symbols

    plugins.sources.update(sources)

    symbols.equal("\\frac{x}{2}", "\\sqrt{x}")
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    This.limits, This.idle = limits, _size()


def _watch(parent: int) -> None:
    """End this worker with its parent, or at its memory ceiling, as macOS ignores RLIMIT_AS."""
    while os.getppid() == parent:
        if _resident_peak() > This.ceiling:
            os._exit(OUT_OF_MEMORY)
        time.sleep(0.1)
    os._exit(1)


def _resident_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _size() -> int:
    """Size of the address space; 1 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1


def answer(call: bytes) -> bytes:
    """Perform a pickled call within its limits; the pickled result or Fault."""
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
    if size > This.idle + This.imported + memory:  # left by earlier calls
        time.sleep(0.2)  # let pebble learn first that the call has started
        os._exit(BLOATED)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        This.ceiling = _resident_peak() + memory
        if size > 1:
            most = [size + memory, *(limit for limit in (soft, hard) if limit >= 0)]
            resource.setrlimit(resource.RLIMIT_AS, (min(most), hard))
        signal.setitimer(signal.ITIMER_REAL, limits.seconds)
        result = tried(_performed, (call,), limits)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        This.ceiling = math.inf
    return result if isinstance(result, bytes) else pickle.dumps(result)


def _prepared(call: bytes) -> None:
    """Import what a call needs; from then on that counts as the worker's own size."""
    _, prepare, arguments = pickle.loads(call)
    if prepare is not None:
        before = _size()
        prepare(*arguments)
        This.imported += max(_size() - before, 0)


def _performed(call: bytes) -> bytes:
    function, _, arguments = pickle.loads(call)
    return pickle.dumps(function(*arguments))


def tried(function: Callable[..., T], arguments: tuple[Any, ...], limits: Limits) -> T | Fault:
    """The result of a call, or the Fault of what it raised."""
    try:
        return function(*arguments)
    except MemoryError:
        return limits.exceeded("memory")
    except BaseException as error:
        return described(error)


def described(error: BaseException) -> Fault:
    """An exception as a Fault; its `str` may raise too."""
    try:
        text = " ".join(str(error).split())[:200]
    except BaseException:
        text = ""
    return Fault("error", f"{type(error).__name__}: {text}".removesuffix(": "))
