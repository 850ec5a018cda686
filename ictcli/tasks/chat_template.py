"""A conversation in the chat template of a model's tokenizer, which is a program of its author's.

jinja2's sandbox keeps it from files and code, not from loops and memory: these are limited here, in
this process, as a worker would take longer to start than all prompts of a run to render.
"""

import contextlib
import resource
import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ictcli.errors import UserError
from ictcli.text import middle_cut

SECONDS = 5.0
"""Of the processor, for a conversation; templates in use take some 20 microseconds."""
MEMORY = 2**30
"""Bytes on top of what the process has. macOS knows no such limit: there time is the only one."""
CHARACTERS = 10_000_000
"""Of the text."""
SHOWN = 300
"""Characters of a template's words, at most."""


class _OverTimeError(BaseException):
    """None of the exceptions that jinja2 catches."""


def rendered(
    tokenizer: Any,
    messages: Sequence[Mapping[str, str]],
    *,
    system: bool,
    of_data: bool = False,
    answered: bool = False,
) -> str:
    """The text of the messages, up to where the model's answer begins, or where it is `answered` to
    the end. UserError where the template raises, does not parse, or exceeds a limit; `system`,
    `of_data`: there is a message that some refuse, of the settings or else of the data."""
    try:
        with _limited():
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=not answered
            )
        if len(text) <= CHARACTERS:
            return text
        words = f"it makes a text of {len(text):,} characters"
    except _OverTimeError:
        words = f"it takes more than {SECONDS:g} s"
    except MemoryError:
        words = f"it takes more than {MEMORY / 2**30:g} GiB of memory"
    except Exception as error:  # whatever the template's author wrote
        words = middle_cut(" ".join(str(error)[:10_000].split()), SHOWN) or type(error).__name__
    raise UserError(
        f"The model's chat template cannot be used: {words.rstrip('.')}.",
        "prompt.system= leaves the system message out; " * system
        + "leave the system messages out of the data; " * (of_data and not system)
        + "prompt.template=none, or a text with {question} in it, takes the template's place",
    )


@contextlib.contextmanager
def _limited() -> Generator[None]:
    """Within, MemoryError beyond MEMORY, and _OverTimeError beyond SECONDS in the main thread, the
    only one that receives signals."""

    def stop(number: int, frame: object) -> NoReturn:
        raise _OverTimeError

    timed = threading.current_thread() is threading.main_thread()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, stop) if timed else None
    try:
        with contextlib.suppress(OSError, ValueError):
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            limits = [limit for limit in (size + MEMORY, soft, hard) if limit >= 0]
            resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
        if timed:  # again and again, as an exception in a destructor is lost
            signal.setitimer(signal.ITIMER_PROF, SECONDS, 1)
        yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
