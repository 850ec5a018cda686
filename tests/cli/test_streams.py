"""What a shell closes, or sends where nothing can be written: a sentence, and the code it has."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Ended, refusal


def shell(line: str, folder: Path, unbuffered: str = "") -> Ended:
    command = f"{shlex.quote(sys.executable)} -m ictcli {line}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=environment
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("runs ls --json . >&-", 0, ""),
        ("runs nope 2>&-", 2, ""),
        ("runs nope <&- >&-", 2, "error: "),
        ("runs nope <&- >&- 2>&-", 2, ""),
    ],
)
def test_a_closed_stream_is_as_good_as_none(
    tmp_path: Path, line: str, code: int, words: str
) -> None:
    ended = shell(line, tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(words) and bool(ended.err) == bool(words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    ("line", "unbuffered"), [("recipes show chain", ""), ("runs show run --json", "1")]
)
def test_output_that_cannot_be_written_is_no_full_disk(
    trained: tuple[Path, Ended], line: str, unbuffered: str
) -> None:
    told = refusal(shell(f"{line} >/dev/full", trained[0].parent, unbuffered), 1)
    assert told.startswith(f"The output cannot be written: {os.strerror(28)}.")
    assert "resume" not in told


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    ended = shell("recipes show chain | true", tmp_path)
    assert (ended.code, ended.err) == (0, "")
