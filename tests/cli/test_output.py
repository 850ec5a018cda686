"""What is printed can be read: by every terminal, and JSON by every reader."""

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Ended, Processes, fresh, refusal

from ictcli.console.table import print_json
from tests.cases import first

ASCII = {
    "PYTHONIOENCODING": {"PYTHONIOENCODING": "ascii"},
    "LC_ALL": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
SMALL = (
    *("steps=1", "warmup=0", "prompts=2", "group=2", "max_tokens=8"),
    *("eval.problems=2", "eval.n=1", "eval.k=[1]"),
)


def test_json_of_ascii_is_the_same_data(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "rün").symlink_to(trained)
    command = ("runs", "show", "rün", "--json")
    shown = fresh(*command, folder=tmp_path, **ASCII["PYTHONIOENCODING"]).out
    assert shown.isascii() and json.loads(shown)["run"] == "rün"
    assert json.loads(shown) == json.loads(ictcli.run(*command).out)


@pytest.mark.parametrize("locale", first([{}, ASCII["LC_ALL"]]))
@pytest.mark.parametrize("typed", first(["--run={}.run", "task={}"]))
def test_a_name_that_is_no_text_ends_in_a_sentence(
    ictcli: Processes, tmp_path: Path, locale: dict[str, str], typed: str
) -> None:
    name = os.fsdecode("dü\xff.jsonl".encode("latin-1"))
    (tmp_path / name).write_text('{"prompt": "1+1=", "gold": "2"}\n' * 20)
    command = ("train", "chain", *SMALL, typed.format(name))
    ended = fresh(*command, folder=tmp_path, **locale) if locale else ictcli.run(*command)
    assert "Traceback" not in ended.err
    assert ended.code == 0 or "\n\nhint: " in ended.err, ended.err


@given(
    st.recursive(
        st.floats() | st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_reader_of_json_reads_what_is_printed(data: Any) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_json(data)
    json.loads(printed.getvalue(), parse_constant=pytest.fail)


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
