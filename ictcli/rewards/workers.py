"""Calls in reused worker processes, each with limits of time and memory.

A call that hangs, explodes or crashes loses only its own result. The time limit is an alarm that
kills the worker: it also stops code that never returns to Python, and a busy parent costs a call
nothing. The parent sets no signals and its `__main__` is not run again, so `isolated` may be called
from threads, notebooks and plain scripts.
"""

import atexit
import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import popen_spawn_posix, process, resource_tracker, spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, cast

from pebble import ProcessExpired, ProcessPool

from ictcli.recipe import plugins
from ictcli.rewards.worker import (
    BLOATED,
    IMPORT_SECONDS,
    OUT_OF_MEMORY,
    Fault,
    Limits,
    This,
    answer,
    described,
    start,
    tried,
)

__all__ = ["Fault", "Limits", "isolated"]

T = TypeVar("T")

_ROUNDS = 3
_CALLS_OF_A_WORKER = 5000  # then it is replaced: calls leak memory


def isolated(
    function: Callable[..., T],
    arguments: Sequence[tuple[Any, ...]],
    limits: Limits | None = None,
    prepare: Callable[..., object] | None = None,
) -> list[T | Fault]:
    """`function(*arguments[i])` for each i, in the order of `arguments`.

    A worker imports `function` by its module and name, so it cannot be defined in `__main__`.
    `prepare` is called with the same arguments before the limits count, for imports. Printed output
    goes to stderr. RuntimeError if workers die before they receive a call.
    """
    limits = limits or Limits()
    if This.idle:  # called in a worker
        return [tried(function, call, limits) for call in arguments]
    results: dict[int, Any] = {}
    calls: dict[int, bytes] = {}  # pickled here, as a failure would break pebble's pipes
    for index, call in enumerate(arguments):
        try:
            calls[index] = pickle.dumps((function, prepare, tuple(call)))
        except Exception as error:
            results[index] = described(error)
    for _ in range(_ROUNDS):
        if calls:
            with _lease(limits) as held:
                calls = _round(held.pool, calls, results, limits, bool(prepare))
    if any(index not in results for index in calls):
        raise RuntimeError("The workers of the verifiers die before they are given an answer.")
    return [results[index] for index in range(len(arguments))]


def _round(
    pool: ProcessPool,
    calls: dict[int, bytes],
    results: dict[int, Any],
    limits: Limits,
    prepared: bool,
) -> dict[int, bytes]:
    """Store the results of the calls and return the calls to repeat: those that were lost with the
    pool or with a worker that was killed from outside."""
    futures: dict[int, Any] = {}
    again: dict[int, bytes] = {}
    last_resort = 2 * limits.seconds + 5  # wall-clock time, in case a call removes its alarm
    last_resort += IMPORT_SECONDS if prepared else 0
    with contextlib.suppress(RuntimeError, BrokenProcessPool):  # the pool broke
        for index, call in calls.items():
            futures[index] = pool.schedule(answer, (call,), timeout=last_resort)
    for index, call in calls.items():
        try:
            if index in futures:
                results[index] = pickle.loads(_result(futures[index], pool))
            else:
                again[index] = call
        except TimeoutError:
            results[index], again[index] = limits.exceeded("timeout"), call
        except ProcessExpired as error:
            results[index] = _death(error.exitcode, limits)
            if error.exitcode in (-signal.SIGTERM, -signal.SIGKILL, BLOATED):
                again[index] = call
        except (BrokenProcessPool, CancelledError):
            again[index] = call
        except Exception as error:  # a result that cannot be unpickled
            results[index] = described(error)
    return again


def _result(future: Any, pool: ProcessPool) -> bytes:
    """Wait for a result. BrokenProcessPool if the pool breaks: it forgets the calls it has not sent
    to a worker yet."""
    while not future.done():
        if not pool.active:
            raise BrokenProcessPool
        wait([future], timeout=0.5)
    return future.result()


def _death(code: int, limits: Limits) -> Fault:
    if code == -signal.SIGALRM:
        return limits.exceeded("timeout")
    if code == OUT_OF_MEMORY:
        return limits.exceeded("memory")
    return Fault("died", f"its worker died ({f'signal {-code}' if code < 0 else f'exit {code}'})")


# The pool, kept between calls.


def _preparation(name: str) -> dict[str, Any]:
    """The process data sent to a worker: without `__main__`, which the worker would run again."""
    own = [place for place in sys.path if place not in plugins.folders]  # a plugin adds its own
    return {"name": name, "sys_path": own}


class _Popen(popen_spawn_posix.Popen):
    """multiprocessing's Popen with `_preparation`, and with SIGINT blocked from the start."""

    _spawn = SimpleNamespace(**{**vars(spawn), "get_preparation_data": _preparation})
    _start = FunctionType(
        cast(Any, popen_spawn_posix.Popen)._launch.__code__,
        {**vars(popen_spawn_posix), "spawn": _spawn},
    )

    def _launch(self, process_obj: Any) -> None:
        resource_tracker.ensure_running()  # starting it unblocks SIGINT
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child inherits it
        try:
            self._start(process_obj)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Process(SpawnProcess):
    _Popen = _Popen


class _Context(SpawnContext):
    Process = _Process


class _Held:
    """A pool with its number of users (calls of `isolated`); the last user of a retired pool closes
    it."""

    def __init__(self, limits: Limits) -> None:
        usable: Any = getattr(os, "sched_getaffinity", None)  # not on macOS
        cpus = len(usable(0)) if usable else os.cpu_count() or 1
        self.limits, self.users, self.retired = limits, 0, False
        self.pool = ProcessPool(
            limits.workers or min(4, cpus),
            max_tasks=_CALLS_OF_A_WORKER,
            initializer=start,
            initargs=(limits, os.getpid(), plugins.sources),
            context=_Context(),
        )

    def close(self) -> None:
        self.pool.stop()
        self.pool.join()


_lock = threading.Lock()
_pools: list[_Held] = []  # at most one that is not retired


@contextlib.contextmanager
def _lease(limits: Limits) -> Generator[_Held]:
    """The pool with these limits, created if needed; pools with other limits are retired."""
    with _lock:
        for held in _pools:
            held.retired |= held.limits != limits or not held.pool.active
        _close_unused()
        held = next((held for held in _pools if not held.retired), None)
        if held is None:
            held = _Held(limits)
            _pools.append(held)
        held.users += 1
    try:
        yield held
    except BaseException:
        held.retired = True  # e.g. Ctrl-C: nobody waits for its calls any more
        raise
    finally:
        with _lock:
            held.users -= 1
            _close_unused()


def _close_unused() -> None:
    for held in [held for held in _pools if held.retired and not held.users]:
        _pools.remove(held)
        held.close()


@atexit.register  # runs before pebble's, which would race with the pool's threads
def _close_all() -> None:
    while _pools:
        _pools.pop().close()


def _forget() -> None:
    """In a forked process: drop the pool, whose threads and workers belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()
    cast(Any, process)._children.clear()


os.register_at_fork(after_in_child=_forget)
