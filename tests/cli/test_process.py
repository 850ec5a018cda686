"""A command as a process: Ctrl-C before it has begun and while it ends, a parent that is gone, and
streams that it can be read on.

`python bench/interrupts.py` presses Ctrl-C at random moments of every command.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from processes import Ended, Processes, fresh, refusal, wait_until

from ictcli.errors import AGAIN
from tests.cases import first


def test_ctrl_c_before_a_command_has_begun_names_what_to_type(tmp_path: Path) -> None:
    code, told = pressed(tmp_path, 0.4, 3, "train", "quickstart")
    assert code == 130 and "Traceback" not in told and "Exception ignored" not in told
    code, told = pressed(tmp_path, 0.8, 2, "eval", "builtin:chain", "--bench", "chain")
    assert code == 130 and "error: Interrupted" in told
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


@pytest.mark.parametrize(
    ("presses", "end"), [(1, (0, "imported\ninterrupted\n", "")), (2, (130, "", "ended at once"))]
)
def test_ctrl_c_lets_an_import_end_once(presses: int, end: tuple[int, str, str]) -> None:
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
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == end[:2] and end[2] in ended.stderr


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


SMALL = (
    *("steps=1", "warmup=0", "prompts=2", "group=2", "max_tokens=8"),
    *("eval.problems=2", "eval.n=1", "eval.k=[1]"),
)


def test_json_of_ascii_is_the_same_data(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "rün").symlink_to(trained)
    command = ("runs", "show", "rün", "--json")
    shown = fresh(*command, folder=tmp_path, PYTHONIOENCODING="ascii").out
    assert shown.isascii() and json.loads(shown)["run"] == "rün"
    assert json.loads(shown) == json.loads(ictcli.run(*command).out)


@pytest.mark.parametrize("typed", first(["--run={}.run", "task={}"]))
def test_a_name_that_is_no_text_ends_in_a_sentence(
    ictcli: Processes, tmp_path: Path, typed: str
) -> None:
    name = os.fsdecode("dü\xff.jsonl".encode("latin-1"))
    (tmp_path / name).write_text('{"prompt": "1+1=", "gold": "2"}\n' * 20)
    command = ("train", "chain", *SMALL, typed.format(name))
    assert "This is not UTF-8" in ictcli.refused(*command)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def shell(line: str, folder: Path, unbuffered: str = "") -> Ended:
    command = f"{shlex.quote(sys.executable)} -m ictcli {line}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=environment
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize(("closed", "words"), [("<&- >&-", "error: "), ("<&- >&- 2>&-", "")])
def test_a_closed_stream_is_as_good_as_none(tmp_path: Path, closed: str, words: str) -> None:
    ended = shell(f"runs nope {closed}", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(words) and bool(ended.err) == bool(words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    ("line", "unbuffered"), first([("runs show run --json", "1"), ("recipes show chain", "")])
)
def test_unwritable_output_is_no_full_disk(trained: Path, line: str, unbuffered: str) -> None:
    told = refusal(shell(f"{line} >/dev/full", trained.parent, unbuffered), 1)
    assert told.startswith(f"The output cannot be written: {os.strerror(28)}.")
    assert "resume" not in told


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    ended = shell("recipes show chain | true", tmp_path)
    assert (ended.code, ended.err) == (0, "")
