"""Run calls in reused worker processes, each within limits of time and memory.

A call that hangs, crashes or uses too much memory loses only its own result. The time limit is CPU
time, so a busy machine does not change results; a wall-clock limit stops calls that sleep. A worker
that exceeds a limit is killed, which no call can prevent. The parent sets no signal handlers, and
workers do not run its `__main__`, so `isolated` works in threads, notebooks and plain scripts."""

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Pipe, wait
from typing import Any, Literal, TypeVar

import psutil

from ictcli.files import gate, plugins
from ictcli.ranks import processes_here
from ictcli.rewards.worker import (
    BLOATED,
    IMPORT_SECONDS,
    OUT_OF_MEMORY,
    STARTED,
    Fault,
    Limits,
    This,
    described,
    tried,
)

__all__ = ["Fault", "Limits", "isolated"]

T = TypeVar("T")

_MOST_LOSSES = 3
"""Number of workers killed during a call after which the call is not tried again."""
_LOST, _PENDING = Fault("died", "its worker was killed"), object()
LARGEST_RESULT = 2**24
"""Maximum size of a call's pickled result, in bytes."""
TOO_LARGE = Fault("error", f"the result of the call takes more than {LARGEST_RESULT >> 20} MiB")
_CLOCK = 10
"""Wall-clock seconds that a call may take per second of its CPU limit."""
_SLACK = 0.3
"""CPU seconds past the limit after which the parent kills a worker that has not ended itself."""
_TICK = 0.1
"""Seconds between two checks of the limits."""


def isolated(
    function: Callable[..., T],
    arguments: Sequence[tuple[Any, ...]],
    limits: Limits | None = None,
    prepare: Callable[..., object] | None = None,
) -> list[T | Fault]:
    """Return `function(*arguments[i])`, or a Fault, for each i.

    A worker imports `function` by its module and name, so it cannot be defined in `__main__`. For
    imports, `prepare` is called first with the same arguments and without the limits. Printed
    output goes to stderr. RuntimeError if workers die before they receive a call."""
    limits = limits or Limits()
    if This.idle:  # called in a worker
        return [tried(function, call, limits) for call in arguments]
    results: dict[int, Any] = {}
    calls: dict[int, bytes] = {}
    for index, call in enumerate(arguments):
        try:
            calls[index] = pickle.dumps((function, prepare, tuple(call)))
        except Exception as error:
            results[index] = described(error)
    with _lock:
        _close([worker for worker in _workers if not worker.fits(limits)])
        try:
            _perform(calls, results, limits)
        finally:
            _close([worker for worker in _workers if worker.busy])  # after Ctrl-C
    return [results[index] for index in range(len(arguments))]


def _perform(calls: dict[int, bytes], results: dict[int, Any], limits: Limits) -> None:
    left, losses = deque(calls), dict.fromkeys(calls, 0)
    while left or any(worker.busy for worker in _workers):
        while left and (worker := _idle(limits)):
            worker.ask(left[0], calls[left.popleft()])
        busy = {worker.connection: worker for worker in _workers if worker.busy}
        ready = wait(list(busy), _TICK)
        for connection, worker in busy.items():
            result = worker.result() if connection in ready else worker.overdue()
            if result is _LOST:
                losses[worker.call] += 1
                if losses[worker.call] < _MOST_LOSSES:
                    left.append(worker.call)
                elif worker.phase == "new":
                    raise RuntimeError("The verifiers' workers die before they receive a call.")
                else:
                    results[worker.call] = _LOST
            elif result is not _PENDING:
                results[worker.call] = result
            if result is not _PENDING and worker.busy:
                _close([worker])


class _Worker:
    def __init__(self, limits: Limits) -> None:
        self.limits, self.code = limits, gate.state()
        self.call, self.busy = -1, False
        self.phase: Literal["new", "ready", "started"] = "new"  # "ready" while it prepares a call
        self.since = self.cpu_before = 0.0  # wall clock and CPU time at the phase's start
        self.connection, end = Pipe()
        main = f"import sys; sys.path[:] = {sys.path!r}; from ictcli.rewards.worker import serve"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{main}; serve({end.fileno()})"],
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=[end.fileno()],
            process_group=0,  # Ctrl-C is for the parent alone
        )
        end.close()
        self.connection.send((limits, os.getpid(), plugins.sources, self.code))

    def fits(self, limits: Limits) -> bool:
        """Return whether the worker is alive and has these limits and all code allowed to run."""
        same = self.limits == limits and self.code == gate.state()
        return same and self.process.poll() is None

    def ask(self, index: int, call: bytes) -> None:
        """Send a call to the worker."""
        self.call, self.busy, self.since = index, True, time.monotonic()
        with contextlib.suppress(OSError):  # the worker is dead: `result` will say so
            self.connection.send_bytes(call)

    def result(self) -> Any:
        """Return the call's result; _PENDING if the worker only reports that it has started."""
        try:
            message = self.connection.recv_bytes(LARGEST_RESULT)
        except (EOFError, OSError):  # too long a message also closes the connection
            return self._death() if self.connection.readable else TOO_LARGE
        if message.startswith(STARTED):
            self.phase = "ready" if self.phase == "new" else "started"
            self.since, self.cpu_before = time.monotonic(), float(message[1:])
            return _PENDING
        self.phase = "ready"
        self.busy = False
        try:
            return pickle.loads(message)
        except Exception as error:
            return described(error)

    def overdue(self) -> Any:
        """Return a Fault if the worker is dead or past its limit; else _PENDING."""
        if self.process.poll() is not None:
            return self._death()
        limit = self.limits.seconds if self.phase == "started" else IMPORT_SECONDS
        late = time.monotonic() - self.since > _CLOCK * limit
        late |= self.cpu_seconds() - self.cpu_before > limit + _SLACK
        return self.limits.exceeded("timeout") if late else _PENDING

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the worker has used so far; 0 if it is dead."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self.process.pid).cpu_times()
            return times.user + times.system
        return 0.0

    def _death(self) -> Fault:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_CLOCK)
        code = self.process.poll()
        if code is None:
            return Fault("died", "it closed its worker's connection")
        if self.phase == "new" or code in (-signal.SIGTERM, -signal.SIGKILL, BLOATED):
            return _LOST
        if code == -signal.SIGPROF:
            return self.limits.exceeded("timeout")
        if code == OUT_OF_MEMORY:
            return self.limits.exceeded("memory")
        why = f"signal {-code}" if code < 0 else f"exit {code}"
        return Fault("died", f"its worker died ({why})")

    def close(self) -> None:
        """Kill the worker, and the processes that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()


_lock = threading.Lock()  # one call of `isolated` at a time
_workers: list[_Worker] = []


def _idle(limits: Limits) -> _Worker | None:
    """Return an idle or new worker; None if as many workers as may run are busy."""
    for worker in _workers:
        if not worker.busy:
            return worker
    if len(_workers) >= (limits.workers or _most()):
        return None
    _workers.append(_Worker(limits))
    return _workers[-1]


def _most() -> int:
    usable: Any = getattr(os, "sched_getaffinity", None)  # not on macOS
    cpus = len(usable(0)) if usable else os.cpu_count() or 1
    return min(4 * processes_here(), cpus)


def _close(workers: Iterable[_Worker]) -> None:
    for worker in workers:
        _workers.remove(worker)
        worker.close()


atexit.register(lambda: _close(list(_workers)))


def _forget() -> None:
    """Forget the workers in a forked process, as they belong to its parent."""
    global _lock
    _lock = threading.Lock()
    for worker in _workers:
        worker.connection.close()
        worker.process.returncode = 0  # not a child of this process: nothing to wait for
    _workers.clear()


os.register_at_fork(after_in_child=_forget)
