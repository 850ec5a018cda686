"""The verifiers that come with ictcli: chain, integer, math, choice."""

import re
from dataclasses import replace

from ictcli.rewards import choice as choices
from ictcli.rewards.answers import LONGEST_AT_ONCE, located
from ictcli.rewards.maths import compare as maths
from ictcli.rewards.maths.copies import copied, without_asked
from ictcli.rewards.maths.describe import describe, listed
from ictcli.rewards.maths.latex import balanced
from ictcli.rewards.verifiers import UNFINISHED, Answers, Verdict, register_verifier

_INTEGER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?")


def as_integer(text: str) -> int | None:
    """The integer that a text says, else None: `1,234`, `$18`, `007`, `12.0`, `18 dollars`, `5\\%`,
    `x = 5`."""
    bare = text.strip()
    if len(bare) <= 400 and _INTEGER.fullmatch(bare):
        return int(bare.replace("$", "").replace(",", "").partition(".")[0])
    if len(text) > LONGEST_AT_ONCE or not balanced(text):
        return None
    exact = maths.value(text)
    return int(exact) if exact is not None and exact.denominator == 1 else None


def whole(gold: str) -> bool:
    """Whether a gold, in its last box if it has one, says an integer."""
    return as_integer(maths.content(gold)) is not None


def math_at_once(answer: str, gold: str) -> Verdict | None:
    """The verdict if text, structure and exact numbers decide it; None if it needs algebra, or is
    too long to be parsed outside the workers."""
    longest = max(len(answer), len(gold))
    if LONGEST_AT_ONCE < longest <= maths.LONGEST and answer.strip() != gold.strip():
        return None
    try:
        return math_verdict(answer, gold, algebra=False)
    except maths.UndecidedError:
        return None


def math_verdict(answer: str, gold: str, *, algebra: bool = True) -> Verdict:
    """The verdict on a LaTeX answer; algebra may be slow. UndecidedError if only algebra can
    tell."""
    outcome = maths.compare(answer, gold, algebra=algebra)
    if outcome == "unreadable":
        long = len(answer) > maths.LONGEST
        why = f"an answer of {len(answer):,} characters" if long else "not read as mathematics"
        return Verdict("unparsed", answer[:200], why)
    reason = UNFINISHED if outcome == "unfinished" else ""
    return Verdict("correct" if outcome == "same" else "wrong", answer, reason)


MATH = Answers(math_verdict, math_at_once, maths.readable, listed, describe, copied, without_asked)
INTEGER = replace(MATH, readable=whole)


@register_verifier("math", MATH)
def math(response: str, gold: str, question: str = "") -> Verdict:
    """The answer in a response against a LaTeX gold."""
    return _judged(MATH, response, gold, question)


@register_verifier("integer", INTEGER)
def integer(response: str, gold: str, question: str = "") -> Verdict:
    """The answer in a response against an integer gold."""
    return _judged(INTEGER, response, gold, question)


def _judged(answers: Answers, response: str, gold: str, question: str) -> Verdict:
    answer, _, missing = located(response, gold, answers.listed)
    if not answer:
        return Verdict("unparsed", "", missing)
    if answers.without_asked is not None:
        answer = answers.without_asked(answer, gold, question)
    verdict = answers.quick(answer, gold) or answers.compare(answer, gold)
    return answers.rewarded(verdict, answer, gold, question)


@register_verifier("choice")
def choice(response: str, gold: str) -> Verdict:
    """The letter that a response decides on against the gold letter (`choice.judge`)."""
    return choices.judge(response, gold)


@register_verifier("chain")
def chain(response: str, gold: str) -> Verdict:
    """The digit on the last line of a chain: after its last `;` (or its start), before its final
    `#`."""
    final = response[:-1].rpartition(";")[2]
    if not response.endswith("#") or len(final) != 1 or final not in "0123456789":
        return Verdict("unparsed", "")
    return Verdict("correct" if final == gold else "wrong", final)
