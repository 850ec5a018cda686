"""Conversations: read from the rows of a data set, and rendered with a chat template.

A chat template is a program. jinja2's sandbox keeps it from reading files and running code, but not
from using time and memory. Both are limited here, in this process: starting a worker would take
longer than rendering all prompts of a run.
"""

import contextlib
import re
import signal
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import limited_memory
from ictcli.rows import Row
from ictcli.text import middle_cut
from ictcli.types import Turn

KEYS = (("role", "content"), ("from", "value"))
"""Names of a message's role and content; the second pair is ShareGPT's."""
ROLES = {"human": "user", "gpt": "assistant"}
"""Maps ShareGPT's names of roles to the usual names."""
_AS_TEXT = re.compile(r"""\s*\[\s*\{.{0,200}?["'](?:role|from)["']\s*:""", re.DOTALL)
_FORM = '[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'


def messages_of(row: Row, name: str) -> tuple[Turn, ...] | None:
    """Return the messages in a column, a list of objects; None if it holds something else.
    UserError if a message has no role or no text, or if the list is written as text."""
    value = row.get(name)
    if isinstance(value, str) and _AS_TEXT.match(value):
        raise UserError(
            f"{row.where} has a {name} that is a list of messages written as text.",
            "use a .jsonl or .parquet file, which can hold lists",
        )
    if not isinstance(value, list):
        return None
    if not value:
        raise UserError(f"{row.where} has an empty {name}.", f'"{name}": {_FORM}')
    messages = cast("list[Any]", value)
    if not all(isinstance(message, dict) for message in messages):
        return None
    turns: list[Turn] = []
    for number, message in enumerate(cast("list[dict[str, Any]]", messages), 1):
        role, content = next((k for k in KEYS if {*k} <= message.keys()), KEYS[0])
        speaker, text = message.get(role), message.get(content)
        if not isinstance(speaker, str) or not isinstance(text, str):
            raise UserError(
                f"{row.where} has no role or no text as content in message {number} of {name}.",
                f'"{name}": {_FORM} (pictures and tool calls are not supported)',
            )
        turns.append((ROLES.get(speaker, speaker), encodable(text)))
    return tuple(turns)


def parted(row: Row, turns: Sequence[Turn]) -> tuple[tuple[Turn, ...], str | None]:
    """Return the messages up to the user's last, and the assistant's answer (None if there is
    none). UserError if the last message, apart from that answer, is not the user's."""
    answer = turns[-1][1] if turns[-1][0] == "assistant" else None
    asked = tuple(turns if answer is None else turns[:-1])
    if not asked or asked[-1][0] != "user":
        raise UserError(
            f"{row.where} has no question: its last message, or the last before the assistant's "
            "answer, is not the user's.",
            _FORM,
        )
    return asked, answer


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Return a conversation as a list of dicts, for chat templates and reward functions."""
    return [{"role": role, "content": text} for role, text in turns]


def as_text(turns: Sequence[Turn]) -> str:
    """Return a conversation as plain text, for a model without a chat template: each answer is on
    the line after its question, followed by an empty line. System messages are left out."""
    kept = [(role, text) for role, text in turns if role != "system"]
    ends = {"assistant": "\n\n"}
    return "".join(text + ends.get(role, "\n") for role, text in kept).rstrip("\n")


SECONDS, EACH = 5.0, 0.01
"""CPU seconds that a template may take in all, and those added for each conversation. SmolLM2's
template takes about 80 microseconds per conversation."""
MEMORY = 2**30
"""Bytes of memory that rendering may add to the process; no limit on macOS."""
CHARACTERS = 10_000_000
"""Number of characters that a rendered conversation may have."""
SHOWN = 300
"""Number of characters shown of an error that a template raises."""


class _OverTimeError(BaseException):
    """The time limit is exceeded. A BaseException, since jinja2 catches Exceptions."""


_spent: dict[str, float] = {}
"""Seconds of `SECONDS` that each template has used."""


def rendered(
    tokenizer: Any,
    messages: Sequence[Mapping[str, str]],
    arguments: Mapping[str, Any],
    *,
    answered: bool = False,
) -> str:
    """Return the messages as text, up to where the model's answer begins or, if `answered`, to the
    end. `arguments` are passed to the template. UserError if the template does not parse, raises or
    exceeds a limit."""
    try:
        with _limited(str(tokenizer.chat_template)):
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=not answered, **arguments
            )
        if len(text) <= CHARACTERS and text.strip():
            return text
        size = f"a text of {len(text):,} characters" if text.strip() else "no text"
        words = f"it renders {size}"
    except _OverTimeError:
        words = f"it takes more than {SECONDS:g} s"
    except MemoryError:
        words = f"it takes more than {MEMORY / 2**30:g} GiB of memory"
    except Exception as error:  # whatever the template's author wrote
        words = middle_cut(" ".join(str(error)[:10_000].split()), SHOWN) or type(error).__name__
    raise UserError(
        f"The model's chat template cannot be used: {words.rstrip('.')}.",
        "prompt.system= leaves the system message out, which some templates refuse; "
        "prompt.template=none, or a text with {question} in it, replaces the template",
    )


@contextlib.contextmanager
def _limited(template: str) -> Generator[None]:
    """Raise MemoryError if the context uses more than MEMORY, and _OverTimeError if it takes longer
    than what the template has left of SECONDS. Time is limited only in the main thread, as no other
    thread receives signals."""

    def stop(number: int, frame: object) -> NoReturn:
        raise _OverTimeError

    timed = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGPROF, stop) if timed else None
    spent, before = _spent.get(template, 0.0), time.process_time()
    try:
        if timed:  # repeated, as an exception in a destructor is lost
            signal.setitimer(signal.ITIMER_PROF, max(SECONDS - spent, 0) + EACH, 1)
        with limited_memory(MEMORY):
            yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, handler)
        _spent[template] = max(spent + time.process_time() - before - EACH, 0)
