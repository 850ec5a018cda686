"""The errors that users see, and their exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | the command failed while running |
| 2 | a mistake in the command, the recipe or the input |
| 3 | the engine is not installed |
| 4 | training ended, but nothing was learned; or a check advises not to train yet |
| 130 | interrupted; the current step was finished and saved |
"""

import errno
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path


class UserError(Exception):
    """A failure that the user can act on. `message` is one sentence; `hint` says what to do next,
    and is printed on its own line. The process exits with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnknownCodeError(UserError):
    """Python code was not run: the user did not name it, and it is new on this machine."""


class RunFailedError(UserError):
    """A run that had started and cannot continue; its folder keeps all that was saved."""

    exit_code = 1


class LostError(RunFailedError):
    """Another process of the torchrun launch has died; restarting the launch helps."""


class NothingFinishedError(RunFailedError):
    """Every run of a comparison failed."""


class NothingLearnedError(UserError):
    """Training ended, but every gradient was 0."""

    exit_code = 4


class EngineMissingError(UserError):
    """The requested engine is not installed, or cannot be used on this machine."""

    exit_code = 3


AGAIN = "run the same command again; saved files are kept"
"""The default hint after Ctrl-C."""

RESUME = "ictcli resume"
"""Start of the note after a failed training: the command that continues it."""


class InterruptedRunError(UserError):
    """Ctrl-C was pressed; the current step was finished and saved."""

    exit_code = 130


def reason_of(error: Exception) -> str:
    """Return the first line of an error's message, or its class if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def text_of(error: Exception, most: int = 300) -> str:
    """Return an error's message, or its class, on one line, cut to `most` characters."""
    return " ".join((str(error).strip() or type(error).__name__).split())[:most].rstrip(".!")


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def nearest(word: str, known: list[str], others: Mapping[str, str] = {}) -> str:
    """Return ` (did you mean X?)` with the known word nearest to a mistyped word, or "".
    `others` maps names that other programs use to known words."""
    from difflib import get_close_matches

    if others.get(word) in known:
        return f" (did you mean {others[word]}?)"
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def unknown(kind: str, name: str, known: Iterable[str], hint: str) -> UserError:
    """Return a UserError, "There is no KIND 'NAME'", that suggests the most similar known name."""
    return UserError(f"There is no {kind} {name!r}{nearest(name, sorted(known))}.", hint)


def install(extra: str) -> str:
    """Return the pip command that adds one of ictcli's extras to this installation."""
    clone = Path(__file__).parents[1]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{clone}[{extra}]')}"
    return f'pip install "ictcli[{extra}]"'
