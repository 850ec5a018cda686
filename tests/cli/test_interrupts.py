"""Ctrl-C before a command has begun and while it ends, and a process whose parent is gone.

`python bench/interrupts.py` presses it at random moments of every command.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("presses", [1, 3])
@pytest.mark.parametrize("moment", [0.15, 0.4, 0.8])
def test_ctrl_c_ends_a_command_with_130_and_no_traceback(
    tmp_path: Path, moment: float, presses: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ictcli", "train", "quickstart"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        time.sleep(moment)
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        told = process.communicate(timeout=60)[1].decode()
    assert "Traceback" not in told
    assert process.returncode == 130


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
