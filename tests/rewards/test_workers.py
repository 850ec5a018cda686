"""Calls in worker processes: what one does to itself, it does to no other."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from calls import LIMITS, act, add, busy, keep, pid, pids

from ictcli.rewards import worker, workers
from ictcli.rewards.workers import Fault, Limits, isolated
from tests.cases import first

MEMORY = Fault("memory", "took more than 0.5 GiB")


NAMES = ["power", "ignore power", "ignore rest", "ignore loop", "ignore deep"]


@pytest.mark.parametrize("name", first(NAMES, 3))
def test_no_call_can_ignore_its_limit_and_it_costs_no_other(name: str) -> None:
    short = Limits(seconds=0.3, workers=2)
    calls = [("add", 1, n) for n in range(20)]
    isolated(act, calls, short)
    start = time.monotonic()
    found = isolated(act, [*calls, tuple(name.split()), *calls], short)
    assert time.monotonic() - start < 20  # 3 s for the call that sleeps, 1 s for the others
    assert found == [*range(1, 21), Fault("timeout", "took more than 0.3 s"), *range(1, 21)]


@pytest.mark.thorough
def test_time_in_which_a_worker_does_not_run_does_not_count() -> None:
    one = Limits(seconds=1, workers=1)
    (worker,) = pids(one)
    timers = [
        threading.Timer(after, os.kill, (worker, number))
        for after, number in ((0.2, signal.SIGSTOP), (3.2, signal.SIGCONT))
    ]
    for timer in timers:
        timer.start()
    assert isolated(busy, [(0.6,)], one) == [worker]
    assert not timers[1].is_alive()  # it was stopped for longer than its limit


def test_the_clock_starts_with_the_call_not_with_its_worker() -> None:
    short = Limits(seconds=0.25, workers=1)
    assert isolated(pid, [(0.1,)] * 5, short) == isolated(pid, [(0.1,)], short) * 5


def test_a_call_that_needs_too_much_memory_is_a_fault() -> None:
    calls = [("add", 1, n) for n in range(50)]
    slow = Limits(seconds=30, memory=LIMITS.memory, workers=LIMITS.workers)  # a busy machine grows
    found = isolated(act, [*calls, ("grow",), *calls, ("grow",)], slow)
    assert found == [*range(1, 51), MEMORY, *range(1, 51), MEMORY]


def test_errors_of_a_call_leave_its_worker_alive() -> None:
    one = Limits(seconds=2, memory=0.5, workers=1)
    names = ["pid", "fail", "deep", "grow", "unpicklable", "fail_stubbornly", "nested", "pid"]
    first, *faults, inner, last = isolated(act, [(name,) for name in names], one)
    assert first == last
    assert inner == [3]
    assert [fault.kind for fault in faults] == ["error", "error", "memory", "error", "error"]
    assert faults[0] == Fault("error", "ValueError: no such thing")
    assert faults[1].message.startswith("RecursionError: maximum recursion depth")
    assert "pickle" in faults[3].message
    assert faults[4].message == "StubbornError"


@pytest.mark.thorough
def test_a_call_that_closes_its_connection_costs_no_other() -> None:
    found = isolated(act, [("add", 1, 2), ("cut",), ("add", 1, 2)], LIMITS)
    assert found == [3, Fault("died", "it closed its worker's connection"), 3]


@pytest.mark.parametrize(
    ("name", "arguments", "cause"), [("crash", (), "signal 11"), ("leave", (3,), "exit 3")]
)
def test_a_call_that_kills_its_worker_costs_no_other(
    name: str, arguments: tuple[int, ...], cause: str
) -> None:
    calls = [("add", 1, n) for n in range(50)]
    found = isolated(act, [*calls, (name, *arguments), *calls], LIMITS)
    assert found == [*range(1, 51), Fault("died", f"its worker died ({cause})"), *range(1, 51)]


def test_arguments_and_functions_that_cannot_be_pickled_are_faults() -> None:
    first, second = isolated(act, [("add", 1, 2), ("add", lambda: 1, 2)], LIMITS)
    assert first == 3
    assert isinstance(second, Fault) and second.kind == "error"
    (third,) = isolated(lambda: 1, [()], LIMITS)
    assert isinstance(third, Fault) and third.kind == "error"


def test_workers_killed_from_outside_cost_nothing() -> None:
    workers = pids()
    timer = threading.Timer(0.3, lambda: [os.kill(each, signal.SIGKILL) for each in workers])
    timer.start()
    found = pids(calls=8, seconds=0.2)
    timer.join()
    for idle in found - workers:
        os.kill(idle, signal.SIGKILL)
    assert isolated(add, [(1, 2)] * 2000, LIMITS) == [3] * 2000


def test_a_worker_full_of_what_calls_left_is_replaced() -> None:
    one = Limits(seconds=5, memory=0.25, workers=1)
    sizes = [150 * 2**20] * 4
    assert isolated(keep, [(size,) for size in sizes], one) == sizes


@pytest.mark.thorough
@pytest.mark.parametrize("apart", first([0.01, 0.0]))
def test_threads_do_not_disturb_each_other_with_the_same_limits_or_others(apart: float) -> None:
    found: dict[int, list[int | Fault]] = {}
    limits = [Limits(seconds=0.5 + apart * thread, workers=2) for thread in range(3)]

    def call(thread: int) -> None:
        calls = [("add", thread, n) for n in range(200)] + [("loop",)]
        found[thread] = isolated(act, calls, limits[thread])

    handlers = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {t: [*range(t, t + 200), limits[t].exceeded("timeout")] for t in range(3)}
    assert handlers == [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_workers_stay_between_calls_and_go_with_their_limits() -> None:
    one, other = Limits(workers=1), Limits(seconds=4, workers=1)
    first = pids(one)
    assert pids(one) == first != {os.getpid()}
    pids(other)
    with pytest.raises(ProcessLookupError):
        os.kill(first.pop(), 0)  # nor is it a zombie, which can be signalled


def test_the_watch_ends_a_process_at_its_ceiling() -> None:
    """As on macOS, where RLIMIT_AS is not enforced."""
    script = f"from ictcli.rewards import worker\nimport os, threading\n\
worker.This.ceiling = worker._resident_peak() + 10**8\n\
threading.Thread(target=worker._watch, args=({os.getpid()},), daemon=True).start()\n\
blocks = []\nwhile True: blocks.append(b'x' * 10**6)"
    done = subprocess.run([sys.executable, "-c", script], timeout=20)
    assert done.returncode == worker.OUT_OF_MEMORY


def test_each_process_of_a_launch_adds_four_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(20), raising=False)
    found = list[int]()
    for processes in ("", "2", "8"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        found.append(workers._most())
    assert found == [4, 8, 20]


@pytest.mark.thorough
def test_a_pool_that_breaks_forgets_no_call() -> None:
    one = Limits(seconds=5, workers=1)
    (idle,) = pids(one)
    timer = threading.Timer(0.05, os.kill, (idle, signal.SIGKILL))
    os.kill(idle, signal.SIGSTOP)  # it has started none of the calls when it dies
    timer.start()
    assert isolated(add, [(1, 2)] * 5000, one) == [3] * 5000
