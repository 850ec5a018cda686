"""Ctrl-C before a command has begun and while it ends, and a process whose parent is gone.

`python bench/interrupts.py` presses it at random moments of every command.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from processes import wait_until

from ictcli.errors import AGAIN


def test_ctrl_c_before_a_command_has_begun_names_what_to_type(tmp_path: Path) -> None:
    code, told = pressed(tmp_path, 0.4, 3, "train", "quickstart")
    assert code == 130 and "Traceback" not in told and "Exception ignored" not in told
    code, told = pressed(tmp_path, 0.8, 2, "eval", "builtin:chain", "--bench", "chain")
    assert code == 130 and told.lstrip().startswith("error: Interrupted")
    assert told.endswith(f"hint: {AGAIN}\n") and told.count("hint:") == 1
    assert not list(tmp_path.iterdir())


def pressed(folder: Path, moment: float, presses: int, *args: str) -> tuple[int, str]:
    """The exit code and stderr of a command at which Ctrl-C is pressed so many times, when it has
    taken some CPU seconds."""
    with subprocess.Popen(
        [sys.executable, "-m", "ictcli", *args],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        wait_until(lambda: sum(psutil.Process(process.pid).cpu_times()[:2]) >= moment)
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        told = process.communicate(timeout=60)[1].decode()
    return process.returncode, told


def test_ctrl_c_amid_a_callback_is_not_lost() -> None:
    script = (
        "import signal, sys, time, weakref\n"
        "from ictcli.__main__ import come_again, interrupt\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "sys.unraisablehook = come_again\n"
        "gone = type('Kept', (), {})()\n"
        "kept = weakref.ref(gone, lambda ref: signal.raise_signal(signal.SIGINT))\n"
        "try:\n"
        "    del gone\n"
        "    time.sleep(20)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")


@pytest.mark.parametrize(
    ("presses", "ends"), [(1, (0, "imported\ninterrupted\n", "")), (2, (130, "", "ended at once"))]
)
def test_ctrl_c_lets_an_import_end_once(presses: int, ends: tuple[int, str, str]) -> None:
    script = (
        "import signal\n"
        "from ictcli.__main__ import interrupt\n"
        "from ictcli.engine.registry import interrupts_held\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "try:\n"
        "    with interrupts_held():\n"
        f"        for _ in range({presses}): signal.raise_signal(signal.SIGINT)\n"
        "        print('imported')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == ends[:2] and ends[2] in ended.stderr


def test_a_step_that_takes_long_does_not_keep_a_child_alive() -> None:
    """The pipe to a comparison's process closes with it, and the child ends within 5 s."""
    script = (
        "import signal, time\n"
        "from ictcli.cli.resume import end_with\n"
        "end_with(0)\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: None)\n"
        "print('ready', flush=True)\n"
        "for _ in range(600): time.sleep(0.1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdin
        assert process.stdout.readline() == b"ready\n"
        process.stdin.close()
        assert process.wait(5) == 130
