"""What goes wrong for a user, and the exit code each kind ends with.

| code | meaning |
|---|---|
| 0 | done |
| 1 | it failed while running |
| 2 | usage, recipe or input |
| 3 | the engine is not installed |
| 4 | a training ended, and nothing was learned; or a check says not to train yet |
| 130 | interrupted, after the step in flight was saved |
"""

import errno
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path


class UserError(Exception):
    """A failure the user can act on: one sentence, and what to do next.

    `hint` is printed on a separate line after `hint: `; `exit_code` ends the process."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnknownCodeError(UserError):
    """Code that was not run here before, and that the user did not name."""


class RunFailedError(UserError):
    """A run that had started and cannot continue; its folder keeps all that was saved."""

    exit_code = 1


class LostError(RunFailedError):
    """Another process of the launch is gone; restarting the launch helps."""


class NothingFinishedError(RunFailedError):
    """Every run of a comparison failed."""


class NothingLearnedError(UserError):
    """A training that ended, and whose every gradient was 0."""

    exit_code = 4


class EngineMissingError(UserError):
    """The engine asked for is not installed, or not usable on this machine."""

    exit_code = 3


AGAIN = "the same command starts again; what was saved is kept"
"""The hint where Ctrl-C ended a command that has no better one."""

RESUME = "ictcli resume"
"""Beginning of the note on an error of a training: the command that continues."""


class InterruptedRunError(UserError):
    """Ctrl-C: the step in flight was finished and saved."""

    exit_code = 130


def reason_of(error: Exception) -> str:
    """Return the first line of what an error of a library says, or its kind."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def text_of(error: Exception, most: int = 300) -> str:
    """Return what a library's error says, on one line without its full stop, or its kind."""
    return " ".join((str(error).strip() or type(error).__name__).split())[:most].rstrip(".!")


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def nearest(word: str, known: list[str], others: Mapping[str, str] = {}) -> str:
    """Return the known word nearest to a mistyped one, as ` (did you mean X?)`, or nothing.
    `others`: what other programs call them."""
    from difflib import get_close_matches

    if others.get(word) in known:
        return f" (did you mean {others[word]}?)"
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def unknown(kind: str, name: str, known: Iterable[str], hint: str) -> UserError:
    """Return an error on a name of a kind that does not exist, with the nearest that does."""
    return UserError(f"There is no {kind} {name!r}{nearest(name, sorted(known))}.", hint)


def install(extra: str) -> str:
    """Return the command that adds one of our extras to this wheel or clone."""
    clone = Path(__file__).parents[1]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{clone}[{extra}]')}"
    return f'pip install "ictcli[{extra}]"'
