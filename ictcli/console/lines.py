"""Lines on stdout and stderr."""

import contextlib
import sys
from pathlib import Path

from ictcli.text import one_line, wrapped

SENTENCES = ("note: ", "warning: ")
"""Lines that begin so are broken at words where they are wider than the terminal."""


def narrate(*lines: str) -> None:
    """Print lines on stderr, each of which stays one line, but for notes and warnings on a
    terminal. A closed stderr ends no run."""
    shown = [one_line(line) for line in lines]
    shown = [wrapped(line, sys.stderr) if line.startswith(SENTENCES) else line for line in shown]
    with contextlib.suppress(OSError):
        sys.stderr.write("".join(f"{line}\n" for line in shown))
        sys.stderr.flush()


def output(*lines: object) -> None:
    """Print lines on stdout, each of which stays one line."""
    print("\n".join(map(one_line, lines)))


def warn_altered(run: Path, *names: str) -> None:
    """Warn of the files of these names that are not what the run wrote."""
    from ictcli.runs import manifest  # takes long

    for name, why in manifest.altered(run, *names).items():
        narrate(f"warning: {run / name} {why}.")


def narrate_paragraph(text: str) -> None:
    """Print an empty line and a paragraph as wide as the terminal."""
    narrate("", *wrapped(one_line(text), sys.stderr).split("\n"))
