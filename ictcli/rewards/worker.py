"""The code of the worker processes of `workers`: perform calls within their limits."""

import contextlib
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeVar

from ictcli.files.reading import limited_memory, process_size

T = TypeVar("T")

_GIB = 2**30
IMPORT_SECONDS = 60.0
"""Maximum CPU time of a verifier's imports, which do not count against its limits."""
STARTED = b"s"
"""First byte of the message that a worker sends when it is ready and when a call starts; its CPU
time follows. No pickle starts with this byte."""
OUT_OF_MEMORY, BLOATED = 86, 87  # exit codes


@dataclass(frozen=True)
class Fault:
    """The reason why a call has no result. Examples of messages: "took more than 5 s", "took more
    than 1 GiB", "ValueError: ...", "its worker died (signal 11)"."""

    kind: Literal["timeout", "memory", "error", "died"]
    message: str


@dataclass(frozen=True)
class Limits:
    """Limits of a call: `seconds` of CPU time (ten times as much wall-clock time), and `memory` in
    GiB beyond the worker's own. `workers` is the number of processes; 0 = one per usable CPU, at
    most 4 per training process on this machine. ValueError if a limit is not positive."""

    seconds: float = 5.0
    memory: float = 1.0
    workers: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 < self.memory < math.inf and self.workers >= 0):
            raise ValueError(f"limits must be positive numbers, not {self}")

    def exceeded(self, kind: Literal["timeout", "memory"]) -> Fault:
        amount = f"{self.seconds:g} s" if kind == "timeout" else f"{self.memory:g} GiB"
        return Fault(kind, f"took more than {amount}")


class This:
    """State of this worker process; sizes in bytes."""

    limits = Limits()
    idle = 0  # size before the first call; 0 = not a worker
    imported = 0  # size of what verifiers imported
    ceiling = math.inf  # limit of resident memory during a call


def serve(descriptor: int) -> None:
    """Perform the calls that arrive over a connection and send their results, until it closes."""
    connection = Connection(descriptor)
    os.register_at_fork(after_in_child=connection.close)  # forks must not answer
    with contextlib.suppress(EOFError, OSError):
        This.limits, parent, sources, code = connection.recv()
        sys.stdout = sys.stderr
        from ictcli.files import gate, plugins

        plugins.sources.update(sources)
        gate.adopt(code)
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
        This.idle = process_size()
        connection.send_bytes(STARTED + b"%f" % time.process_time())
        while True:
            connection.send_bytes(_answer(connection.recv_bytes(), connection))


def _watch(parent: int) -> None:
    """End this worker if its parent ends, or at its memory ceiling, as macOS ignores RLIMIT_AS."""
    while os.getppid() == parent:
        if _resident_peak() > This.ceiling:
            os._exit(OUT_OF_MEMORY)
        time.sleep(0.1)
    os._exit(1)


def _resident_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _answer(call: bytes, connection: Connection) -> bytes:
    """Perform a pickled call within its limits; return the pickled result or Fault."""
    limits = This.limits
    prepared = tried(_prepared, (call,), limits)
    if isinstance(prepared, Fault):
        return pickle.dumps(prepared)
    size, memory = process_size(), int(limits.memory * _GIB)
    if size > This.idle + This.imported + memory:  # memory left by earlier calls
        os._exit(BLOATED)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # kills without running Python code
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    before = time.process_time()
    connection.send_bytes(STARTED + b"%f" % before)
    with limited_memory(memory):
        try:
            This.ceiling = _resident_peak() + memory
            signal.setitimer(signal.ITIMER_PROF, limits.seconds)
            result = tried(_performed, (call,), limits)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            This.ceiling = math.inf
    if time.process_time() - before > limits.seconds:  # the call ignored the signal
        result = limits.exceeded("timeout")
    return result if isinstance(result, bytes) else pickle.dumps(result)


def _prepared(call: bytes) -> None:
    """Import what a call needs, and count the memory of the imports as the worker's own."""
    _, prepare, arguments = pickle.loads(call)
    if prepare is not None:
        before = process_size()
        prepare(*arguments)
        This.imported += max(process_size() - before, 0)


def _performed(call: bytes) -> bytes:
    function, _, arguments = pickle.loads(call)
    return pickle.dumps(function(*arguments))


def tried(function: Callable[..., T], arguments: tuple[Any, ...], limits: Limits) -> T | Fault:
    """Return the result of a call, or a Fault if the call raises."""
    try:
        return function(*arguments)
    except MemoryError:
        return limits.exceeded("memory")
    except BaseException as error:
        return described(error)


def described(error: BaseException) -> Fault:
    """Return an exception as a Fault, even if its `str` raises."""
    try:
        text = " ".join(str(error).split())[:200]
    except BaseException:
        text = ""
    said = f"{type(error).__name__[:100]}: {text}".removesuffix(": ")
    return Fault("error", said + _place(error))


def _place(error: BaseException) -> str:
    """Return the line of a user's verifier in a traceback as ` (FILE, line N)`; else ""."""
    stack = traceback.extract_tb(error.__traceback__)
    caller = str(Path(__file__).with_name("verifiers.py"))
    files = {at.filename for before, at in pairwise(stack) if before.filename == caller}
    ours = str(Path(__file__).parents[1])
    frames = [at for at in stack if at.filename in files and not at.filename.startswith(ours)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
