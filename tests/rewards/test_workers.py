"""Calls in worker processes: what one does to itself, it does to no other; and what a script sees
that makes them at module level, with no guard."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from calls import LIMITS, ONE, POWER, act, add, keep, pids

from ictcli.rewards import worker
from ictcli.rewards.workers import LARGEST_RESULT, TOO_LARGE, Fault, Limits, isolated
from tests.cases import first

SHORT, SLOW = Limits(0.3, workers=2), Limits(30, 0.5, 2)  # a busy machine grows slowly
LATE, MEMORY = (Fault("timeout", "took more than 0.3 s"), Fault("memory", "took more than 0.5 GiB"))
SIGNAL, EXIT = (Fault("died", f"its worker died ({how})") for how in ("signal 11", "exit 3"))
CUT, REST = Fault("died", "it closed its worker's connection"), "time.sleep(1000)"
COSTS: list[tuple[Limits, dict[str, Fault]]] = [
    (SHORT, dict.fromkeys((POWER, f"ignore({POWER!r})", f"ignore({REST!r})"), LATE)),
    (SLOW, {"grow()": MEMORY}),
    (LIMITS, {"os.kill(os.getpid(), signal.SIGSEGV)": SIGNAL, "os._exit(3)": EXIT}),
    (LIMITS, {f"os.closerange(3, 100) or {REST}": CUT}),
    (SHORT, dict.fromkeys(("ignore('loop()')", "ignore('deep()')"), LATE)),
]


@pytest.mark.parametrize(("limits", "costs"), first(COSTS, 3))
def test_no_call_can_ignore_its_limit_or_cost_another_its_result(
    limits: Limits, costs: dict[str, Fault]
) -> None:
    calls, every, start = [f"1 + {n}" for n in range(20)], range(1, 21), time.monotonic()
    asked = [(call,) for cost in costs for call in (*calls, cost, *calls)]
    found = isolated(act, asked, limits)
    assert time.monotonic() - start < 30  # 3 s for the call that sleeps, 1 s for the others
    assert found == [each for fault in costs.values() for each in (*every, fault, *every)]


def test_errors_of_a_call_leave_its_worker_alive() -> None:
    one = Limits(seconds=2, memory=0.5, workers=1)
    asked = ["pid()", "fail()", "deep()", "grow()", "lambda: 1", "fail_stubbornly()"]
    asked += ["isolated(add, [(1, 2)])", "pid()"]
    first, *faults, inner, last = isolated(act, [(each,) for each in asked], one)
    assert first == last and inner == [3]
    assert [fault.kind for fault in faults] == ["error", "error", "memory", "error", "error"]
    assert faults[0].message == "ValueError: no such thing"
    assert faults[1].message.startswith("RecursionError: maximum recursion depth")
    assert "pickle" in faults[3].message and faults[4].message == "StubbornError"


def test_a_result_has_a_limit_of_size() -> None:
    """The parent reads none that is longer."""
    asked = [f"bytes({LARGEST_RESULT})", "1 + 1", f"flood({100 * LARGEST_RESULT})", "1 + 2"]
    found = isolated(act, [(each,) for each in asked], Limits(workers=1))
    assert found == [TOO_LARGE, 2, TOO_LARGE, 3]


def test_arguments_and_functions_that_cannot_be_pickled_are_faults() -> None:
    three, argument = isolated(add, [(1, 2), (lambda: 1, 2)], LIMITS)
    (function,) = isolated(lambda: 1, [()], LIMITS)
    assert three == 3
    assert all(isinstance(each, Fault) and each.kind == "error" for each in (argument, function))


def test_workers_killed_from_outside_cost_nothing() -> None:
    workers = pids(ONE)
    timer = threading.Timer(0.3, lambda: [os.kill(each, signal.SIGKILL) for each in workers])
    timer.start()
    found = pids(ONE, calls=4, seconds=0.2)
    timer.join()
    for idle in found - workers:
        os.kill(idle, signal.SIGKILL)
    assert isolated(add, [(1, 2)] * 200, ONE) == [3] * 200


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
        calls = [*((f"{thread} + {n}",) for n in range(200)), ("loop()",)]
        found[thread] = isolated(act, calls, limits[thread])

    handlers = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(3)]
    for step in ("start", "join"):
        for thread in threads:
            getattr(thread, step)()
    assert found == {t: [*range(t, t + 200), limits[t].exceeded("timeout")] for t in range(3)}
    assert handlers == [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_workers_stay_between_calls_and_go_with_their_limits() -> None:
    first = pids(ONE)
    assert pids(ONE) == first != {os.getpid()}
    pids(Limits(seconds=4, workers=1))
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


# Scripts

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}


def run(script: str, file: Path | None = None) -> tuple[str, str]:
    """stdout and stderr of a script, in a file or from stdin."""
    if file:
        file.write_text(script)
    command = [sys.executable, str(file or "-")]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, env=ENVIRONMENT, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", ["script.py", None])
def test_the_main_of_a_script_runs_once_workers_print_to_stderr_alone_and_an_exit_is_quick(
    tmp_path: Path, name: str | None
) -> None:
    script = """
import os, time, calls as t
from ictcli.rewards import workers
print("once")
print(t.isolated(t.add, [(1, 2)], t.ONE))
t.isolated(print, [("to see",)], t.ONE)
t.isolated(os.system, [("echo and this",)], t.ONE)
start = time.time()
workers._close(list(workers._workers))
print(time.time() - start < 1)  # 0.2 s where the machine is idle
"""
    said = run(script, tmp_path / name if name else None)
    assert said == ("once\n[3]\nTrue\n", "to see\nand this\n")


@pytest.mark.thorough
def test_a_forked_process_has_workers_of_its_own() -> None:
    script = """
import os, calls as t
call = lambda: t.isolated(t.add, [(1, 2)], t.ONE)
call()
if os.fork():
    assert os.wait()[1] == 0
assert call() == [3]
"""
    assert run(script) == ("", "")


def session(leader: int) -> list[str]:
    lines = subprocess.run(
        ["ps", "-A", "-o", "sess=,stat=,args="], capture_output=True, text=True
    ).stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in lines]
    return [row[-1] for row in rows if row[0] == str(leader) and not row[1].startswith("Z")]


@pytest.mark.parametrize(("how", "call"), [(signal.SIGINT, POWER), (signal.SIGKILL, "loop()")])
def test_no_worker_outlives_its_parent(how: signal.Signals, call: str) -> None:
    script = f"import calls as t\nl = t.Limits(seconds=2, workers=2)\n\
t.isolated(t.add, [(1, 2)], l)\nprint(flush=True)\nt.isolated(t.act, [({call!r},)] * 5, l)"
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, **pipes, env=ENVIRONMENT, start_new_session=True) as parent:
        assert parent.stdout and parent.stderr
        parent.stdout.readline()
        time.sleep(0.5)
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)  # as a terminal does
        else:
            os.kill(parent.pid, how)
        assert parent.wait(20) == -how
        until = time.monotonic() + 20
        while (left := session(parent.pid)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left
        assert parent.stderr.read().count("Traceback") == (how == signal.SIGINT)
