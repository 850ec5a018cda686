"""Worker processes as a script sees that calls them at module level, with no guard."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import calls as t
print("once")
print(t.isolated(t.add, [(1, 2)], t.Limits(workers=1)))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}


def run(script: str, *options: str, file: Path | None = None) -> tuple[str, str]:
    if file:
        file.write_text(script)
    command = [sys.executable, *options, *([str(file)] if file else ["-"])]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, env=ENVIRONMENT, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_main_of_a_script_runs_once(tmp_path: Path) -> None:
    expected = ("once\n[3]\n", "")
    assert run(SCRIPT, file=tmp_path / "script.py") == expected
    assert run(SCRIPT) == expected  # from stdin


@pytest.mark.thorough
def test_a_forked_process_has_workers_of_its_own() -> None:
    script = """
import os, calls as t
call = lambda: t.isolated(t.add, [(1, 2)], t.Limits(workers=1))
call()
if os.fork():
    assert os.wait()[1] == 0
assert call() == [3]
"""
    assert run(script) == ("", "")


def test_workers_print_to_stderr_alone_and_an_exit_is_quick() -> None:
    script = (
        "import os, time, calls as t\n"
        "from ictcli.rewards import workers\n"
        "t.isolated(print, [('to see',)])\n"
        "t.isolated(os.system, [('echo and this',)])\n"
        "start = time.time()\n"
        "workers._close(list(workers._workers))\n"
        "print(time.time() - start)\n"
    )
    out, err = run(script)
    assert float(out) < 1  # 0.2 s where the machine is idle
    assert err == "to see\nand this\n"


def session(leader: int) -> list[str]:
    """The processes of a session, zombies left out."""
    lines = subprocess.run(
        ["ps", "-A", "-o", "sess=,stat=,args="], capture_output=True, text=True
    ).stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in lines]
    return [row[-1] for row in rows if row[0] == str(leader) and not row[1].startswith("Z")]


@pytest.mark.parametrize(("how", "name"), [(signal.SIGINT, "power"), (signal.SIGKILL, "loop")])
def test_no_worker_outlives_its_parent(how: signal.Signals, name: str) -> None:
    script = f"import calls as t\nl = t.Limits(seconds=2, workers=2)\n\
t.isolated(t.add, [(1, 2)], l)\nprint(flush=True)\nt.isolated(t.act, [({name!r},)] * 5, l)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as parent:
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
        text = parent.stderr.read()
        assert text.count("Traceback") == (how == signal.SIGINT)
