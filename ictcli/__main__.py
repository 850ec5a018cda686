"""The `ictcli` command, which `python -m ictcli` runs too.

Ctrl-C exits with code 130 and no traceback, even while libraries are still being imported."""

import contextlib
import gc
import os
import signal
import sys

WINDOWS = """\
error: ictcli runs on Linux and macOS, not on Windows.

hint: wsl --install installs Linux on Windows; install ictcli inside it"""


def main() -> None:
    """Run the command line, and exit with one of the codes that `ictcli.errors` lists."""
    if sys.platform == "win32":
        sys.exit(WINDOWS)
    os.environ["PYTHONSAFEPATH"] = "1"  # child processes do not import from the working directory
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup ignores it
        signal.signal(signal.SIGINT, interrupt)
    try:
        from ictcli.cli import run

        code = run()
    except KeyboardInterrupt:  # while the command line was imported
        say("Interrupted.")
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has ended
    gc.freeze()  # collecting the garbage of large libraries would delay the exit
    exec("")  # else CPython dies by SIGINT, without `code`, if one came during an earlier exec
    sys.exit(code)


def interrupt(number: int, frame: object) -> None:
    """Handle the first Ctrl-C: raise KeyboardInterrupt, so that open files are closed."""
    signal.signal(signal.SIGINT, leave)
    raise KeyboardInterrupt


def leave(number: int, frame: object) -> None:
    """Handle the second Ctrl-C: exit without closing anything."""
    say("Interrupted twice: ended at once.")
    os._exit(130)


def say(message: str) -> None:
    """Print an error unbuffered, and show the terminal's cursor, which a progress view may hide."""
    from ictcli.errors import AGAIN

    cursor = "\x1b[?25h\n" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}error: {message}\n\nhint: {AGAIN}\n".encode())


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, whose modules may not be trusted
    main()
