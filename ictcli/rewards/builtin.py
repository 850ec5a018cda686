"""The verifiers that come with ictcli: chain, integer, math, text, choice."""

import re
from collections.abc import Sequence

from ictcli.rewards.answers import LONGEST_AT_ONCE
from ictcli.rewards.maths import compare as maths
from ictcli.rewards.maths.copies import copied
from ictcli.rewards.maths.latex import balanced, is_word
from ictcli.rewards.maths.nodes import UndecidedError
from ictcli.rewards.verifiers import COPIED, UNFINISHED, Verdict, register_verifier
from ictcli.text import folded

_SIGNS = re.compile(r"[\d\\^_=+*/<>{}()\[\]|$%]")
_RUN = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_HYPHEN = re.compile(r"(?<=\w\w)-(?=\w\w)")
_ONE_KIND = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013", "''\"\"----")
_INTEGER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?")


def as_integer(text: str) -> int | None:
    """Return the integer that a text states, as do `1,234`, `$18`, `007`, `12.0`, `18 dollars`,
    `5\\%` and `x = 5`; None for other texts."""
    bare = text.strip()
    if len(bare) <= 400 and _INTEGER.fullmatch(bare):
        return int(bare.replace("$", "").replace(",", "").partition(".")[0])
    if len(text) > LONGEST_AT_ONCE or not balanced(text):
        return None
    exact = maths.value(text)
    return int(exact) if exact is not None and exact.denominator == 1 else None


def whole(gold: str) -> bool:
    """Return whether a gold (or the content of its last box) is an integer."""
    return as_integer(maths.content(gold)) is not None


def math_at_once(answer: str, gold: str) -> Verdict | None:
    """Return the verdict if text, structure and exact numbers decide it; None if algebra is needed
    or a text is too long to be parsed in this process."""
    longest = max(len(answer), len(gold))
    if LONGEST_AT_ONCE < longest <= maths.LONGEST and answer.strip() != gold.strip():
        return None
    try:
        return math_verdict(answer, gold, algebra=False)
    except UndecidedError:
        return None


@register_verifier("integer", whole)
@register_verifier("math", maths.readable)
def math_verdict(answer: str, gold: str, *, algebra: bool = True) -> Verdict:
    """Return the verdict on an answer. UndecidedError if algebra is needed but not allowed."""
    outcome = maths.compare(answer, gold, algebra=algebra)
    if outcome == "unreadable":
        long = len(answer) > maths.LONGEST
        why = f"too long: {len(answer):,} characters" if long else "cannot be read as mathematics"
        return Verdict("unparsed", answer[:200], why)
    reason = UNFINISHED if outcome == "unfinished" else ""
    return Verdict("correct" if outcome == "same" else "wrong", answer, reason)


def rewarded(verdict: Verdict, answer: str, gold: str, question: str) -> Verdict:
    """Return the verdict, changed to "wrong" if a correct answer is copied from the question."""
    if verdict.status == "correct" and question and copied(answer, gold, question):
        return Verdict("wrong", answer, COPIED)
    return verdict


def are_words(golds: Sequence[str]) -> bool:
    """Return whether a data set's golds are words: none has a digit or mathematical sign, and at
    least half have letters that cannot be a product of symbols."""
    if any(map(_SIGNS.search, golds)):
        return False
    runs = [_RUN.findall(gold) for gold in golds]
    if not all(len(run) > 2 or is_word(run) for of_gold in runs for run in of_gold):
        return False
    sure = sum(any(len(run) > 3 or is_word(run) for run in of_gold) for of_gold in runs)
    return 2 * sure >= len(golds) > 0


def as_text(text: str) -> str:
    """Return words for comparison: lower case, single spaces, no hyphens or outer punctuation."""
    text = folded(text.translate(_ONE_KIND))
    return " ".join(_HYPHEN.sub(" ", text).split()).strip(" $*_`\"'.,;:!?")


@register_verifier("text", boxed=True)
def words(answer: str, gold: str) -> Verdict:
    """Return the verdict "correct" if an answer has the gold's words, or equals the gold as `math`
    judges without algebra (which might read words as products of symbols)."""
    normalized = as_text(answer)
    if normalized and normalized == as_text(gold):
        return Verdict("correct", answer)
    return math_at_once(answer, gold) or Verdict("wrong", answer)


@register_verifier("chain")
def chain(response: str, gold: str) -> Verdict:
    """Return whether the response ends with `;`, the gold (a digit) and `#`, as a verdict."""
    final = response[:-1].rpartition(";")[2]
    if not response.endswith("#") or len(final) != 1 or final not in "0123456789":
        return Verdict("unparsed", "")
    return Verdict("correct" if final == gold else "wrong", final)
