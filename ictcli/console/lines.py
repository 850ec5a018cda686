"""Prints lines on stdout and stderr."""

import contextlib
import sys
from pathlib import Path

from ictcli.text import one_line, wrapped

SENTENCES = ("note: ", "warning: ")
"""Prefixes of lines that are wrapped at the width of the terminal."""


def narrate(*lines: str) -> None:
    """Print lines on stderr. Notes and warnings are wrapped on a terminal, other lines never. A
    closed stderr is ignored, so that the run continues."""
    texts = [one_line(line) for line in lines]
    texts = [wrapped(line, sys.stderr) if line.startswith(SENTENCES) else line for line in texts]
    with contextlib.suppress(OSError):
        sys.stderr.write("".join(f"{line}\n" for line in texts))
        sys.stderr.flush()


def output(*lines: object) -> None:
    """Print each argument as one line on stdout."""
    print("\n".join(map(one_line, lines)))


def warn_altered(run: Path, *names: str) -> None:
    """Warn of a run's files, by name or pattern, that changed since the run wrote them."""
    from ictcli.runs import manifest  # here, as the import is slow

    for name, why in manifest.altered(run, *names).items():
        narrate(f"warning: {run / name} {why}.")


def narrate_paragraph(text: str) -> None:
    """Print an empty line and a paragraph on stderr, wrapped at the width of the terminal."""
    narrate("", *wrapped(one_line(text), sys.stderr).split("\n"))
