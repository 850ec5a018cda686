"""Prints a model's answers to a prompt while they are sampled, and runs a chat."""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from ictcli.console.lines import narrate, output
from ictcli.console.results import explain
from ictcli.console.table import print_json
from ictcli.errors import UserError
from ictcli.generate.session import Reply, Session, stop_on_interrupt
from ictcli.rewards import Explanation
from ictcli.rewards.files import as_columns
from ictcli.text import BREAKS, SPACES, visible


def print_answers(session: Session, question: str, gold: str | None, *, as_json: bool) -> int:
    """Answer a prompt, judge the answers if there is a gold, and return the exit code."""
    introduce(session)
    with stop_on_interrupt() as stop:
        if as_json:
            reply = session.ask(question, stop=stop)
        else:
            reply = session.ask(question, AnswerStream(session.settings.n).add, stop)
    explanations: Sequence[Explanation] = ()
    if gold is not None and not reply.stopped:
        texts = [answer.text for answer in reply.answers]
        explanations = session.form.judge(question, texts, gold, narrate)
    if as_json:
        print_json(_record(session, reply, gold, explanations))
    else:
        n = len(explanations)
        for number, explanation in enumerate(explanations, 1):
            explain(f"answer {number} of {n}" if n > 1 else "verdict", explanation)
        if n > 1:
            right = sum(explanation.verdict.status == "correct" for explanation in explanations)
            output(f"{right} of {n} correct")
    remark(session, reply)
    return 130 if reply.stopped else 0


def chat(session: Session) -> int:
    """Answer what is typed until the user leaves, and return the exit code. Ctrl-C ends an answer
    or, at the prompt, the chat."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # gives `input` line editing and a history
    introduce(session)
    narrate("The model does not see earlier prompts. Ctrl-C stops an answer, Ctrl-D ends the chat.")
    if hint := session.form.hint:
        narrate(f"{hint[0].upper()}{hint[1:]}")
    while True:
        try:
            question = input("> ")
        except (EOFError, KeyboardInterrupt) as end:
            narrate("")
            return 0 if isinstance(end, EOFError) else 130
        except UnicodeDecodeError:
            narrate("The input is not UTF-8.")
            continue
        if not question.strip():
            continue
        try:
            with stop_on_interrupt() as stop:
                reply = session.ask(question, AnswerStream(1).add, stop)
            remark(session, reply)
        except UserError as error:
            narrate(error.message, *[f"hint: {error.hint}"] * bool(error.hint))


def introduce(session: Session) -> None:
    """Print on stderr which model answers."""
    about = session.engine.describe()
    narrate(
        f"{session.model.name}: {about['parameters']:,} parameters, {about['engine']} on "
        f"{about['device']} ({about['dtype']}), temperature {session.model.temperature:g}"
        + (" (temperature=0 is greedy)" if session.model.temperature else "")
    )


class AnswerStream:
    """Prints `n` answers that are sampled in parallel, one below the other: the first unfinished
    answer as it grows, each later answer when all before it have ended."""

    def __init__(self, n: int) -> None:
        self._waiting = [""] * n
        self._ended = [False] * n
        self._row = 0
        self._begun = False

    def add(self, row: int, text: str, ended: bool) -> None:
        """Add text to answer `row`, which may have `ended`, and print what can be printed."""
        self._waiting[row] += text
        self._ended[row] = ended
        n = len(self._waiting)
        while self._row < n:
            if n > 1 and not self._begun:
                _write(f"[{self._row + 1} of {n}]\n")
            _write(self._waiting[self._row])
            self._waiting[self._row], self._begun = "", True
            if not self._ended[self._row]:
                break
            _write("\n")
            self._row, self._begun = self._row + 1, False


def _write(text: str) -> None:
    sys.stdout.write(visible(text, SPACES + BREAKS))
    sys.stdout.flush()


def remark(session: Session, reply: Reply) -> None:
    """Print on stderr how many answers were cut."""
    n, most = len(reply.answers), reply.sampling.max_tokens
    cut = sum(not answer.finished for answer in reply.answers)
    subject = "the answer was" if n == 1 else f"{cut} of {n} answers were"
    if reply.stopped:
        total = sum(len(answer.tokens) for answer in reply.answers)
        narrate(f"note: stopped by Ctrl-C after {total:,} token{'s' * (total != 1)}.")
    elif cut and len(reply.prompt_tokens) + most < session.engine.context:
        narrate(f"note: {subject} cut at {most:,} tokens; max_tokens={2 * most} allows more.")
    elif cut:
        context = session.engine.context
        narrate(f"note: {subject} cut at the end of the model's context, {context:,} tokens.")


def _record(
    session: Session, reply: Reply, gold: str | None, explanations: Sequence[Explanation]
) -> dict[str, Any]:
    model, settings = session.model, session.settings
    verdicts = [as_columns(explanation) for explanation in explanations]
    answers = [
        {**asdict(answer), "verdict": verdict}
        for answer, verdict in zip_longest(reply.answers, verdicts)
    ]
    return {
        "model": model.model,
        "name": model.name,
        "sha256": model.fingerprint(),
        "engine": session.engine.describe(),
        "settings": {
            "seed": settings.seed,
            "n": settings.n,
            **asdict(reply.sampling),
            "prompt": model.prompt.model_dump(mode="json"),
        },
        "question": reply.question,
        "prompt": reply.prompt,
        "prompt_tokens": reply.prompt_tokens,
        "gold": gold,
        "answers": answers,
        "stopped": reply.stopped,
    }
