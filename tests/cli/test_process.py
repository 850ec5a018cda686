"""--nice, --threads and --awake: in force for a command and all that it starts."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ictcli.cli.options import THREAD_VARIABLES

TELL = """
import json, os, subprocess, sys, time
from ictcli.cli.options import process_settings
with process_settings({nice}, {threads}, {awake}):
    code = "import json, os; print(json.dumps([os.nice(0), dict(os.environ)]))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(json.dumps({{"own": os.nice(0), "child": json.loads(child.stdout)}}), flush=True)
    time.sleep({stay})
"""
KEEPER = """#!/bin/sh
echo "$$ $@" > {told}
exec {does}
"""


def tell(folder: Path, *, stay: float = 0, **asked: Any) -> subprocess.Popen[str]:
    """A process that says what is in force, and stays a while; PATH is the folder alone."""
    given = {"nice": 0, "threads": None, "awake": False, **asked}
    environment = {**os.environ, "PATH": str(folder)}
    script = TELL.format(**given, stay=stay)
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    return json.loads(process.stdout.readline())


@pytest.mark.skipif(not hasattr(os, "nice"), reason="no nice levels here")
def test_priority_and_threads_are_a_child_s_too(tmp_path: Path) -> None:
    with tell(tmp_path, nice=3, threads=2) as process:
        found = heard(process)
    before = os.nice(0)
    nice, environment = found["child"]
    assert found["own"] == nice == min(before + 3, 19)
    assert {environment[name] for name in THREAD_VARIABLES} == {"2"}


def ended(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except OSError:
            return True
        if (state := Path(f"/proc/{pid}/stat")).exists() and ") Z " in state.read_text():
            return True  # nobody waits for it here
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of systemd")
@pytest.mark.parametrize("killed", [False, True])
def test_the_machine_is_kept_awake_until_the_process_is_gone(tmp_path: Path, killed: bool) -> None:
    keeper = tmp_path / "systemd-inhibit"
    keeper.write_text(KEEPER.format(told=tmp_path / "told", does="/bin/cat"))
    keeper.chmod(0o755)
    with tell(tmp_path, awake=True, stay=60 if killed else 0.5) as process:
        heard(process)
        pid, *args = (tmp_path / "told").read_text().split()
        assert args[0] == "--what=idle:sleep" and args[-1] == "cat"
        os.kill(int(pid), 0)
        if killed:
            process.kill()
    assert ended(int(pid))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of systemd")
@pytest.mark.parametrize("there", [False, True])
def test_where_nothing_keeps_it_awake_a_sentence_says_so(tmp_path: Path, there: bool) -> None:
    """Where there is no systemd-inhibit, and where there is one that is refused."""
    keeper = tmp_path / "systemd-inhibit"
    if there:
        keeper.write_text(KEEPER.format(told=tmp_path / "told", does="/bin/false"))
        keeper.chmod(0o755)
    said = tell(tmp_path, awake=True).communicate()[1]
    assert said.startswith("note: Nothing here keeps the machine awake")


def test_macos_s_own_keeper_watches_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from ictcli.cli import options as process

    monkeypatch.setattr(process.sys, "platform", "darwin")
    monkeypatch.setattr(process.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert process.keeper() == ["caffeinate", "-i", "-w", str(os.getpid())]
