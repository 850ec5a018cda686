"""Single keys from a terminal, which is restored on every way out."""

import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Generator
from typing import Any

from ictcli.console.screen import Screen

ESCAPES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "backtab",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
}
PLAIN = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x04": "q"}
_SEQUENCE = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)"  # an answer of the terminal
    r"|[\[O](?P<code>[0-9;]*[A-Za-z~])"
    r"|(?=\x1b)|$)"  # escape alone
)
_COLOUR = re.compile(r"rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")


def parse(text: str) -> list[str]:
    """The keys in what a terminal sent: characters, or names. Skips unknown sequences."""
    keys: list[str] = []
    place = 0
    while place < len(text):
        if match := _SEQUENCE.match(text, place):
            code = match["code"] or ""
            name = ESCAPES.get(code) or (ESCAPES.get(code[-1]) if ";" in code else None)
            keys += [name] if name else []
            place = max(match.end(), place + 1)
            continue
        keys.append(PLAIN.get(text[place], text[place]))
        place += 1
    return keys


class Keys:
    """Reads keys from stdin; see `raw`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _ready(self, seconds: float) -> bool:
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self, seconds: float) -> list[str]:
        """The keys pressed; waits up to `seconds` for the first. A closed terminal reads as q."""
        if not self._ready(seconds):
            return []
        try:
            sent = os.read(self._descriptor, 4096)
        except OSError:
            return ["q"]
        return parse(sent.decode(errors="ignore")) if sent else ["q"]

    def background(self, seconds: float = 0.15) -> tuple[int, int, int] | None:
        """The background colour, if the terminal answers OSC 11."""
        if os.environ["TERM"].startswith("linux"):  # it would print the question
            return None
        screen = Screen().file
        screen.write("\x1b]11;?\x1b\\")
        screen.flush()
        answer = ""
        while not re.search(r"\x07|\x1b\\", answer):
            if not self._ready(seconds):
                return None
            answer += os.read(self._descriptor, 256).decode(errors="ignore")
        if not (match := _COLOUR.search(answer)):
            return None
        r, g, b = (int(part[:2].ljust(2, "0"), 16) for part in match.groups())
        return r, g, b


@contextlib.contextmanager
def raw() -> Generator[Keys]:
    """Read stdin key by key without echo. Ctrl-C still interrupts; Ctrl-Z does nothing.

    Restores the terminal on every way out, SIGTERM and SIGHUP among them.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(descriptor)
        now: list[Any] = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes(1, "big")
        termios.tcsetattr(descriptor, termios.TCSADRAIN, now)
        yield Keys(descriptor)
    finally:
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
