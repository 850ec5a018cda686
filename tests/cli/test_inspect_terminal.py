"""`ictcli inspect` on a terminal, driven by keys."""

import re
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Processes
from synthetic import record
from terminal import Terminal

from ictcli.console.inspect_keys import parse

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
    terminal.press("[", "No step was recorded before")
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
        assert "error: No such file" in terminal.said


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


def test_the_view_goes_on_without_a_model(ictcli: Processes, run: Path) -> None:
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(re.sub("(?m)^model = .*", 'model = "/gone/model"', recipe))
    with Terminal(ictcli, run.parent, "inspect", run) as terminal:
        terminal.see("recipe.toml is not what the run wrote")
        terminal.press("c", "No model is there to ask")
        terminal.press(RIGHT, "q quit")
        quit_by_key(terminal)


@given(st.text(max_size=30))
def test_any_input_is_keys_or_nothing(text: str) -> None:
    assert all(isinstance(key, str) and key for key in parse(text))


def test_sequences_are_named_and_answers_of_the_terminal_are_no_keys() -> None:
    assert parse("\x1b[A\x1bOB\x1b[5~\x1b[1;5Cq\t") == ["up", "down", "pageup", "right", "q", "tab"]
    assert parse("\x1b]11;rgb:ffff/ffff/ffff\x1b\\m\x1b") == ["m"]
