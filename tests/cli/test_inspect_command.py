"""`ictcli inspect` on a terminal, driven by keys, and without: text, JSON, the page, and what is
refused."""

import json
import re
import shutil
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from processes import Processes
from safetensors.numpy import save_file
from synthetic import record
from terminal import Terminal

from ictcli.runs import read_rollouts

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record(tmp_path / "run")


@pytest.fixture
def terminal(ictcli: Processes, run: Path) -> Iterator[Terminal]:
    with Terminal(ictcli, run.parent, "inspect", run) as held:
        held.see("q quit")
        yield held


def end(terminal: Terminal) -> int:
    """Wait for the end: the exit code, with the terminal as it was before."""
    code = terminal.end()
    assert termios.tcgetattr(terminal.theirs) == terminal.before
    for on, off in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")):
        assert terminal.said.rfind(off) > terminal.said.rfind(on) > -1
    assert terminal.said.rfind("\x1b[?7h") > terminal.said.rfind("\x1b[?7l") > -1
    return code


def quit_by_key(terminal: Terminal) -> None:
    terminal.press("q")
    assert end(terminal) == 0


def test_keys_move_switch_and_quit(terminal: Terminal) -> None:
    frame = terminal.see("q quit")
    assert "prompt 1/3  step 20 (recorded: 10, 20)" in frame and "shaded by uniqueness" in frame
    frame = terminal.press("\x1b[H", r" 1/\d+  u ")
    assert re.search(r"rollout \d: (correct|wrong) .*advantage (\+1.50|-0.50)", frame)
    terminal.press(RIGHT * 3, r" 4/\d+  u ")
    terminal.press(LEFT, r" 3/\d+  u ")
    terminal.press(DOWN, r"rollout \d: ")
    for key in (" ", " ", "\x7f"):  # from kept token to kept token
        assert "kept by ■ ict" in terminal.press(key, r" \d+/\d+  u ")
    terminal.press("\t", r"kept by entropy20 \(.*entropy20: on the same rollouts")
    terminal.press("m", r"kept by stapo")
    terminal.press("\x1b[Z", r"kept by entropy20")
    terminal.press("s", "shaded by entropy")
    terminal.press("n", "prompt 2/3")
    terminal.press("pp", "prompt 3/3")
    terminal.press("[", r"step 10 \(")
    terminal.press("[", "No earlier step was recorded")
    terminal.press("]", r"step 20 \(")
    quit_by_key(terminal)


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("term", 143), ("fault", 1)])
def test_any_end_restores_the_terminal(terminal: Terminal, run: Path, how: str, code: int) -> None:
    assert termios.tcgetattr(terminal.theirs) != terminal.before
    if how == "fault":
        (run / "rollouts" / "step-000010.safetensors").unlink()
        terminal.press("[")
    else:
        terminal.send(signal.SIGINT if how == "ctrl-c" else signal.SIGTERM)
    assert end(terminal) == code
    assert "Traceback" not in terminal.said
    if how == "fault":
        assert "error: " in terminal.said and "step-000010.safetensors" in terminal.said


@pytest.mark.parametrize(("size", "no_color"), [((24, 80), "1"), ((10, 40), ""), ((50, 160), "")])
def test_a_frame_fills_the_screen_and_no_more_and_has_colours_where_they_are_wanted(
    ictcli: Processes, run: Path, size: tuple[int, int], no_color: str
) -> None:
    with Terminal(ictcli, run.parent, "inspect", run, size=size, NO_COLOR=no_color) as terminal:
        terminal.see("kept by [■·]")
        quit_by_key(terminal)
    if size[0] > 10:  # a smaller screen may show no kept token, which is underlined
        colours = re.findall(r"\x1b\[[0-9;]*(?<=[;\[])[34]8;", terminal.said)
        assert bool(colours) != bool(no_color)
        assert re.search(r"\x1b\[[0-9;]*\b4\b[0-9;]*m", terminal.said)
    rows = [int(row) for row in re.findall(r"\x1b\[(\d+);1H", terminal.said)]
    assert rows == list(range(1, size[0] + 1)) * (len(rows) // size[0])
    for control in ("\x1b[31m\u2028", "\u202e", "\u2028", "\n\n\n"):
        assert control not in terminal.said


def test_text_marks_the_kept_tokens(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("inspect", trained, "--step", "3", "--prompt", "2")
    arrays, about = read_rollouts(trained / "rollouts" / "step-000003.safetensors")
    assert "step 3, prompt 2 of 4" in ended.out and about["problems"][1]["prompt"] in ended.out
    kept = int(arrays["kept"][4:8].sum())
    marked = ended.out.split("gold: ")[1].split("[marked]")[0]
    assert len(re.findall(r"\[[^\]]+\]", marked)) == kept > 0
    assert re.search(rf"(?m)^ict +{kept} ", ended.out)
    assert "\x1b" not in ended.out and "highest uniqueness of the group" in ended.out


def test_json_holds_what_was_recorded(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("inspect", trained, "--prompt=1", "--method=random", "--json")
    assert ended.err == ""
    found = json.loads(ended.out)
    assert found["step"] == 6 and found["steps"] == [3, 6] and found["prompts"] == 4
    arrays, about = read_rollouts(trained / "rollouts" / "step-000006.safetensors")
    for row, rollout in enumerate(found["rollouts"]):
        n = int(arrays["lengths"][row])
        assert rollout["tokens"] == arrays["tokens"][row, :n].tolist()
        assert rollout["kept"]["trained"] == arrays["kept"][row, :n].tolist()
        assert rollout["advantage"] == pytest.approx(arrays["advantage"][row])
        assert rollout["verdict"] == about["verdicts"][row]["status"]
        for name, values in rollout["stats"].items():
            assert np.array_equal(np.float32(values), arrays[f"stats/{name}"][row, :n])


def test_what_is_not_there_is_refused(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    for option, words in (
        ("--step=4", "No rollouts were recorded at step 4. recorded: 3, 6"),
        ("--prompt=5", "no prompt 5 in step 6. --prompt must be from 1 to 4"),
        ("--method=itc", "did you mean ict"),
        ("--by=entropie", "did you mean entropy"),
        ("--html=.", ". does not end in .html. --html group.html"),
    ):
        assert words in ictcli.refused("inspect", trained, option)
    arrays, about = read_rollouts(trained / "rollouts" / "step-000003.safetensors")
    del arrays["kept"]
    torn = shutil.copytree(trained, tmp_path / "torn") / "rollouts" / "step-000003.safetensors"
    save_file(arrays, torn, {"ictcli": json.dumps(about)})
    ended = ictcli.refused("inspect", "torn", "--step=3", "--trust")
    assert "not a file of recorded rollouts" in ended
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "recipe.toml").write_bytes((trained / "recipe.toml").read_bytes())
    told = ictcli.refused("inspect", "bare")
    assert "has no recorded rollouts" in told and "record.rollouts_every" in told


def test_a_run_and_a_model_are_looked_at_alike(ictcli: Processes, tmp_path: Path) -> None:
    record(tmp_path / "run")
    table = ictcli.json("inspect", "run", "--branches", "--method", "ict,random")
    assert {row["method"] for row in table["placements"]} == {"ict", "random"}
    small = ("prompts=2", "group=4", "max_tokens=16")
    table = ictcli.json("inspect", "builtin:chain", "task=chain", *small, "--branches")
    assert table["responses"] == 8 and table["branch_share"] > 0
    (ict, *_) = [
        row for row in table["placements"] if row["method"] == "ict" and row["keep"] == 0.1
    ]
    assert ict["branch_recall"]["value"] < 1
    assert "task" in ictcli.refused("inspect", "builtin:chain", "--branches")
