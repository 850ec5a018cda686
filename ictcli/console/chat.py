"""A small chat on a terminal."""

import contextlib
import importlib

from ictcli.console.answers import AnswerStream, introduce, remark
from ictcli.console.plain import narrate
from ictcli.errors import UserError
from ictcli.generate.interrupts import stop_on_interrupt
from ictcli.generate.session import Session

QUIT, RESET = "/quit", "/reset"


def chat(session: Session) -> int:
    """Answer what is typed until the user leaves; returns the exit code. Ctrl-C ends an answer, and
    at the prompt the chat."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # gives `input` line editing and a history
    introduce(session)
    if session.remembers:
        narrate(f"{RESET} begins a new conversation, {QUIT} or Ctrl-D ends.")
    else:
        narrate(f"Each prompt is asked alone, without a chat template. {QUIT} or Ctrl-D ends.")
    if hint := session.form.hint:
        narrate(f"{hint[0].upper()}{hint[1:]}")
    while True:
        try:
            question = input("> ")
        except (EOFError, KeyboardInterrupt) as end:
            narrate("")
            return 0 if isinstance(end, EOFError) else 130
        except UnicodeDecodeError:
            narrate("That is not UTF-8.")
            continue
        if question.strip() == QUIT:
            return 0
        if question.strip() == RESET:
            session.reset()
        elif question.strip():
            _answer(session, question)


def _answer(session: Session, question: str) -> None:
    try:
        with stop_on_interrupt() as stop:
            reply = session.ask(question, AnswerStream(1).heard, stop)
    except UserError as error:
        narrate(error.message, *[f"hint: {error.hint}"] * bool(error.hint))
    else:
        remark(session, reply)
