"""Reads single keys from a terminal, and always restores the terminal."""

import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Generator
from typing import Any

PLAIN = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x04": "q"}
ESCAPES = {
    **dict(zip("ABCDHFZ", ["up", "down", "right", "left", "home", "end", "backtab"], strict=True)),
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
}
_KEY = re.compile(
    r"\x1b[\[O](?:[0-9]+;[0-9;]*)?(?P<code>[0-9]*[A-Za-z~])"
    r"|\x1b(?=\x1b|$)|(?P<character>.)",
    re.DOTALL,
)


def parse(text: str) -> list[str]:
    """Return the keys in a terminal's text: characters or names like `left`. Skips unknown keys."""
    pairs = [(match["code"], match["character"] or "") for match in _KEY.finditer(text)]
    names = [ESCAPES.get(code, "") if code else PLAIN.get(sign, sign) for code, sign in pairs]
    return [name for name in names if name]


def read(seconds: float) -> list[str]:
    """Return the keys pressed, after waiting up to `seconds`; q if the terminal was closed."""
    if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
        return []
    try:
        data = os.read(sys.stdin.fileno(), 4096)
    except OSError:
        return ["q"]
    return parse(data.decode(errors="ignore")) if data else ["q"]


@contextlib.contextmanager
def raw() -> Generator[None]:
    """Context in which stdin can be read key by key, without echo. Ctrl-C still interrupts; Ctrl-Z
    does nothing. The terminal is always restored at the end, also on SIGTERM and SIGHUP."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    handlers = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(descriptor)
        now: list[Any] = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes(1, "big")
        termios.tcsetattr(descriptor, termios.TCSADRAIN, now)
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
