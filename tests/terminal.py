"""A command that reads and writes a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from processes import Processes

SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
SECONDS = 60


class Terminal:
    """A context manager; `said` is all that was written, `words` the same without sequences."""

    def __init__(
        self,
        ictcli: Processes,
        folder: Path,
        *args: str | Path,
        size: tuple[int, int] = (24, 80),
        stdin: str = "",
        **environment: str,
    ) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self._written, self._seen = b"", 0
        name, plain = os.ttyname(self.theirs), {"COLUMNS": "", "LINES": "", "NO_COLOR": ""}
        terminal: Any = {**plain, "TERM": "xterm-256color", **environment}
        self._running = ictcli.start(
            *args, folder=folder, terminal=name, stdin=stdin or name, **terminal
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._ours)
        os.close(self.theirs)

    @property
    def said(self) -> str:
        return self._written.decode(errors="ignore").replace("\r", "")

    def _listen(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        self._written += os.read(self._ours, 1 << 16)
        return True

    def see(self, words: str, *, at_rest: bool = True) -> str:
        """Wait for words in what is written since the last keys, and give that as plain text; where
        it is not `at_rest`, more may be written at that moment."""
        until = time.monotonic() + SECONDS
        while True:
            more = self._listen(0.05)
            text = SEQUENCE.sub("", self.said[self._seen :])
            if not (more and at_rest) and re.search(words, text):
                return text
            assert time.monotonic() < until, f"no {words!r} in {text[-3000:]!r}"

    def press(self, keys: str, words: str = "", *, at_rest: bool = True) -> str:
        self._seen = len(self.said)
        os.write(self._ours, keys.encode())
        return self.see(words, at_rest=at_rest)

    def send(self, number: signal.Signals, words: str = "") -> str:
        self._seen = len(self.said)
        self._running.send(number)
        return self.see(words)

    def end(self) -> int:
        """The exit code, once it has ended."""
        ended = threading.Event()

        def listen() -> None:
            while self._listen(0.05) or not ended.is_set():
                pass

        listener = threading.Thread(target=listen)
        listener.start()  # a command that nobody reads does not end
        code = self._running.code()
        ended.set()
        listener.join()
        return code
