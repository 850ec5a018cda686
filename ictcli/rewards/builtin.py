"""The verifiers that come with ictcli: chain, integer, math, choice."""

from __future__ import annotations

from ictcli.rewards import choice as choices
from ictcli.rewards.answers import extract
from ictcli.rewards.maths import compare as maths
from ictcli.rewards.maths.integers import as_integer
from ictcli.rewards.verifiers import Answers, Verdict, register_verifier


def math_verdict(answer: str, gold: str) -> Verdict:
    """A mathematical answer against a gold, both LaTeX, by all means there are."""
    return _verdict(maths.compare(answer, gold, algebra=True), answer)


def math_at_once(answer: str, gold: str) -> Verdict | None:
    """The same where layout, structure and exact numbers decide it; None where algebra must."""
    try:
        return _verdict(maths.compare(answer, gold, algebra=False), answer)
    except maths.UndecidedError:
        return None


def _verdict(outcome: maths.Outcome, answer: str) -> Verdict:
    if outcome == "unreadable":
        long = len(answer) > maths.LONGEST
        why = f"an answer of {len(answer):,} characters" if long else "not read as mathematics"
        return Verdict("unparsed", answer[:200], why)
    return Verdict("correct" if outcome == "same" else "wrong", answer)


def integer_at_once(answer: str, gold: str) -> Verdict | None:
    """An answer against an integer gold, where it is one in any dress."""
    value = as_integer(answer)
    if value is None:
        return math_at_once(answer, gold)
    return Verdict("correct" if value == as_integer(gold) else "wrong", answer)


MATH = Answers(math_verdict, math_at_once, maths.readable)
INTEGER = Answers(math_verdict, integer_at_once, lambda gold: as_integer(gold) is not None)


@register_verifier("math", MATH)
def math(response: str, gold: str) -> Verdict:
    """The answer in a response against a LaTeX gold."""
    answer = extract(response)
    if not answer:
        return Verdict("unparsed", "", "no answer in a box")
    return math_verdict(answer, gold)


@register_verifier("integer", INTEGER)
def integer(response: str, gold: str) -> Verdict:
    """The answer in a response against an integer gold."""
    answer = extract(response)
    if not answer:
        return Verdict("unparsed", "", "no answer in a box")
    return integer_at_once(answer, gold) or math_verdict(answer, gold)


@register_verifier("choice")
def choice(response: str, gold: str) -> Verdict:
    """The letter a response settles on against the gold's; see `choice.judge` for the texts."""
    return choices.judge(response, gold)


@register_verifier("chain")
def chain(response: str, gold: str) -> Verdict:
    """The digit on the last line of a chain: between its last `;`, or its start, and the `#` that
    must end it."""
    final = response[:-1].rpartition(";")[2]
    if not response.endswith("#") or len(final) != 1 or final not in "0123456789":
        return Verdict("unparsed", "")
    return Verdict("correct" if final == gold else "wrong", final)
