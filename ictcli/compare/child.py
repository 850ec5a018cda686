"""One run of a comparison in a process of its own, which ends with the process that started it.

`python -m ictcli.compare.child RUN [OPTION...]` is `ictcli resume`, with a pipe as stdin that the
parent holds open and never writes to. Whatever ends the parent, SIGKILL too, closes the pipe; this
process then ends as by SIGTERM, behind the step in flight, which it saves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with(descriptor: int) -> None:
    """Have this process told to end (SIGTERM) when the other end of a pipe is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it may have been started deaf to it

    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    end_with(sys.stdin.fileno())
    sys.argv = ["ictcli", "resume", *sys.argv[1:], "--json"]
    from ictcli.cli import main as ictcli

    ictcli()


if __name__ == "__main__":
    main()
