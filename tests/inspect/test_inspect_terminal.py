"""`ictcli inspect` on a terminal: a real process on a pseudo-terminal, driven by keys."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import record

from ictcli.console.inspect_keys import parse

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, *args: str | Path, size: tuple[int, int] = (24, 80), **more: str) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment |= {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1", **more}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ictcli", "inspect", *map(str, args)],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )
        self.said, self._bytes = "", b""
        self.seen = 0

    def _listen(self, seconds: float) -> bool:
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        try:
            self._bytes += os.read(self.ours, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.said = self._bytes.decode(errors="ignore")
        return True

    def see(self, words: str, seconds: float = 20) -> str:
        """Wait for a whole frame that has these words, and give it as plain text."""
        until = time.monotonic() + seconds
        while True:
            more = self._listen(0.05)
            frame = SEQUENCE.sub("", self.said[self.seen :])
            if not more and re.search(words, frame):
                return frame
            assert time.monotonic() < until, f"no {words!r} in {frame[-3000:]!r}"

    def press(self, keys: str, words: str) -> str:
        self.seen = len(self.said)
        os.write(self.ours, keys.encode())
        return self.see(words)

    def end(self) -> int:
        """Wait for the end: the exit code, with the terminal as it was before."""
        until = time.monotonic() + 20
        while self.process.poll() is None:
            self._listen(0.05)
            assert time.monotonic() < until
        while self._listen(0.05):
            pass
        assert termios.tcgetattr(self.theirs) == self.before
        for on, off in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")):
            assert self.said.rfind(off) > self.said.rfind(on) > -1
        assert self.said.rfind("\x1b[?7h") > self.said.rfind("\x1b[?7l") > -1
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record(tmp_path / "run")


@pytest.fixture
def terminal(run: Path) -> Iterator[Terminal]:
    held = Terminal(run)
    yield held
    held.close()


def test_keys_move_switch_and_quit(terminal: Terminal) -> None:
    frame = terminal.see("q quit")
    assert "prompt 1/3  step 20 (recorded: 10, 20)" in frame and "shaded by uniqueness" in frame
    frame = terminal.press("\x1b[H", r" 1/\d+  u ")
    assert re.search(r"rollout \d: (correct|wrong) .*advantage (\+1.50|-0.50)", frame)
    terminal.press(RIGHT * 3, r" 4/\d+  u ")
    terminal.press(LEFT, r" 3/\d+  u ")
    terminal.press(DOWN, r"rollout \d: ")
    terminal.press("\t", r"kept by entropy20 \(.*entropy20: on the same rollouts")
    terminal.press("m", r"kept by stapo")
    terminal.press("\x1b[Z", r"kept by entropy20")
    terminal.press("s", "shaded by entropy")
    terminal.press("n", "prompt 2/3")
    terminal.press("pp", "prompt 3/3")
    terminal.press("[", r"step 10 \(")
    terminal.press("[", "No step was recorded before")
    terminal.press("]", r"step 20 \(")
    os.write(terminal.ours, b"q")
    assert terminal.end() == 0


def test_space_goes_from_kept_token_to_kept_token(terminal: Terminal) -> None:
    terminal.see("q quit")
    terminal.press("\x1b[H", r" 1/\d+  u ")
    for _ in range(2):
        assert "kept by ■ ict" in terminal.press(" ", r" \d+/\d+  u ")
    assert "kept by ■ ict" in terminal.press("\x7f", r" \d+/\d+  u ")


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("term", 143), ("fault", 1)])
def test_the_terminal_is_restored_however_it_ends(
    terminal: Terminal, run: Path, how: str, code: int
) -> None:
    terminal.see("q quit")
    assert termios.tcgetattr(terminal.theirs) != terminal.before
    if how == "ctrl-c":
        os.write(terminal.ours, b"\x03")
    elif how == "term":
        terminal.process.send_signal(signal.SIGTERM)
    else:
        (run / "rollouts" / "step-000010.safetensors").unlink()
        os.write(terminal.ours, b"[")
    assert terminal.end() == code
    assert "Traceback" not in terminal.said
    if how == "fault":
        assert "error: No such file" in terminal.said


def test_no_colour_where_none_is_wanted_and_kept_tokens_still_marked(run: Path) -> None:
    for wanted, value in ((True, ""), (False, "1")):
        terminal = Terminal(run, NO_COLOR=value)
        terminal.see("q quit")
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0
        colours = re.findall(r"\x1b\[[0-9;]*(?<=[;\[])[34]8;", terminal.said)
        assert bool(colours) == wanted
        assert re.search(r"\x1b\[[0-9;]*\b4\b[0-9;]*m", terminal.said)  # underlined
        terminal.close()


@pytest.mark.parametrize("size", [(24, 80), (10, 40), (50, 160)])
def test_a_frame_fills_the_screen_and_no_more(run: Path, size: tuple[int, int]) -> None:
    terminal = Terminal(run, size=size)
    terminal.see("kept by [■·]")
    os.write(terminal.ours, b"q")
    assert terminal.end() == 0
    rows = [int(row) for row in re.findall(r"\x1b\[(\d+);1H", terminal.said)]
    assert rows == list(range(1, size[0] + 1)) * (len(rows) // size[0])
    for control in ("\x1b[31m\u2028", "\u202e", "\u2028", "\r\n\n\n"):
        assert control not in terminal.said
    terminal.close()


def test_a_model_that_is_not_there_is_told_and_the_view_goes_on(run: Path) -> None:
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(re.sub("(?m)^model = .*", 'model = "/gone/model"', recipe))
    terminal = Terminal(run)
    terminal.see("recipe.toml is not what the run wrote")
    terminal.press("c", "No model is there to ask")
    terminal.press(RIGHT, "q quit")
    os.write(terminal.ours, b"q")
    assert terminal.end() == 0
    terminal.close()


def test_plain_prints_on_a_terminal_too(run: Path) -> None:
    terminal = Terminal(run, "--plain")
    terminal.see(r"\[marked\]: kept by ict")
    assert "\x1b[?1049h" not in terminal.said and terminal.process.wait(20) == 0
    terminal.close()


@given(st.text(max_size=30))
def test_any_input_is_keys_or_nothing(text: str) -> None:
    assert all(isinstance(key, str) and key for key in parse(text))


def test_sequences_are_named_and_answers_of_the_terminal_are_no_keys() -> None:
    assert parse("\x1b[A\x1bOB\x1b[5~\x1b[1;5Cq\t") == ["up", "down", "pageup", "right", "q", "tab"]
    assert parse("\x1b]11;rgb:ffff/ffff/ffff\x1b\\m\x1b") == ["m"]
