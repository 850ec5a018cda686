"""The `ictcli` command, and `python -m ictcli`.

Ctrl-C ends it with 130 and without a traceback from here on, while click is imported too.
"""

import contextlib
import gc
import os
import signal
import sys

WINDOWS = """\
error: ictcli runs on Linux and macOS, not on Windows.

hint: wsl --install sets up a Linux on Windows; install ictcli in there"""


def main() -> None:
    """Run the command line; exits with a code of `ictcli.errors`."""
    if sys.platform == "win32":
        sys.exit(WINDOWS)
    os.environ["PYTHONSAFEPATH"] = "1"  # no process started here imports from the working directory
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as by nohup
        signal.signal(signal.SIGINT, interrupt)
    try:
        from ictcli.cli import run

        code = run()
    except KeyboardInterrupt:  # before there was a command
        say("Interrupted.")
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop
    gc.freeze()  # the objects of large libraries end with the process: going through them is slow
    exec("")  # CPython ends by SIGINT, not with `code`, if one came in the last string it executed
    sys.exit(code)


def interrupt(number: int, frame: object) -> None:
    """Raise KeyboardInterrupt at the first Ctrl-C, so that open files are closed; end the process
    at a second one."""
    signal.signal(signal.SIGINT, leave)
    raise KeyboardInterrupt


def leave(number: int, frame: object) -> None:
    """End the process at once."""
    say("Interrupted twice: ended at once.")
    os._exit(130)


def say(message: str) -> None:
    """Print an error past all buffers, on a terminal whose cursor may be hidden by a live view."""
    from ictcli.errors import AGAIN

    cursor = "\x1b[?25h\n" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}error: {message}\n\nhint: {AGAIN}\n".encode())


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which may be a stranger's
    main()
