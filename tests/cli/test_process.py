"""--nice, --threads and --awake: in force for a command and all that it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import gone, wait_until

from ictcli.cli import options

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of systemd")
def test_all_is_in_force_for_a_child_until_it_is_killed(tmp_path: Path) -> None:
    keeper = tmp_path / "systemd-inhibit"
    keeper.write_text(KEEPER.format(told=tmp_path / "told", does="/bin/cat"))
    keeper.chmod(0o755)
    with tell(tmp_path, nice=3, threads=2, awake=True, stay=60) as process:
        assert process.stdout
        found = json.loads(process.stdout.readline())
        nice, environment = found["child"]
        assert found["own"] == nice == min(os.nice(0) + 3, 19)
        assert {environment[name] for name in options.THREAD_VARIABLES} == {"2"}
        pid, *args = (tmp_path / "told").read_text().split()
        assert args[0] == "--what=idle:sleep" and args[-1] == "cat"
        os.kill(int(pid), 0)
        process.kill()
    wait_until(lambda: gone(int(pid)))


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
    monkeypatch.setattr(options.sys, "platform", "darwin")
    monkeypatch.setattr(options.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert options.keeper() == ["caffeinate", "-i", "-w", str(os.getpid())]
