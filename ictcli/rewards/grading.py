"""Judging one response or many, each answer within limits of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ictcli.recipe import plugins
from ictcli.rewards import answers, choice
from ictcli.rewards.verifiers import FAILED, Judge, Verdict, Verifier, as_verifier, find_verifier
from ictcli.rewards.workers import Fault, Limits, isolated

LIMITS = Limits()
NO_ANSWER = "no answer in a box"
NO_MATCH = "the answer pattern matches nothing"


@overload
def grade(  # pyright: ignore[reportOverlappingOverload]  # a str is a sequence of them
    responses: str,
    golds: str,
    kind: str | Verifier | Judge = ...,
    *,
    pattern: str | None = ...,
    choices: Sequence[str] = ...,
    limits: Limits = ...,
) -> Verdict: ...
@overload
def grade(
    responses: Sequence[str],
    golds: Sequence[str],
    kind: str | Verifier | Judge = ...,
    *,
    pattern: str | None = ...,
    choices: Sequence[Sequence[str]] = ...,
    limits: Limits = ...,
) -> list[Verdict]: ...
def grade(
    responses: str | Sequence[str],
    golds: str | Sequence[str],
    kind: str | Verifier | Judge = "math",
    *,
    pattern: str | None = None,
    choices: Sequence[Any] = (),
    limits: Limits = LIMITS,
) -> Verdict | list[Verdict]:
    """The verdict on a response, or a list of verdicts on many. One that fails, hangs or explodes
    does not affect the others.

    `kind` is a verifier's name (math, integer, choice, chain, one of a plugin,
    `file.py:function`), a verifier, or a function of response and gold, which runs in this process.
    `pattern` is a regular expression whose first group is the answer, in place of the last box.
    `choices` are the texts of (A), (B), ... for kind choice, one sequence per response. What cannot
    be decided at once is judged in worker processes within `limits`. UserError for an unknown kind
    or an invalid pattern; ValueError if the numbers of responses, golds and choices differ.
    """
    verifier = as_verifier(kind)
    if isinstance(responses, str) or isinstance(golds, str):
        if not isinstance(responses, str) or not isinstance(golds, str):
            raise ValueError("one response has one gold, many have as many")
        return _many(verifier, [responses], [golds], pattern, [choices], limits)[0]
    if choices and len(choices) != len(responses):
        raise ValueError(f"{len(responses)} responses, but choices for {len(choices)}")
    if len(responses) != len(golds):
        raise ValueError(f"{len(responses)} responses, but {len(golds)} golds")
    return _many(verifier, responses, golds, pattern, choices or [()] * len(golds), limits)


def _many(
    verifier: Verifier,
    responses: Sequence[str],
    golds: Sequence[str],
    pattern: str | None,
    choices: Sequence[Sequence[str]],
    limits: Limits,
) -> list[Verdict]:
    if pattern is not None:
        answers.compiled(pattern)  # raises for an invalid pattern
    verdicts: list[Verdict | None] = []
    left: dict[tuple[str, str], list[int]] = {}  # what a worker must judge: the rows it is for
    for row, (response, gold) in enumerate(zip(responses, golds, strict=True)):
        verdict = _at_once(verifier, response, gold, pattern, choices[row])
        if isinstance(verdict, tuple):
            left.setdefault(verdict, []).append(row)
            verdict = None
        verdicts.append(verdict)
    calls = [(verifier.name, verifier.source, *pair) for pair in left]
    results = isolated(_judged, calls, limits, prepare=_prepared)
    for (pair, rows), result in zip(left.items(), results, strict=True):
        if isinstance(result, Fault):
            result = _from_fault(verifier, pair[0], result)
        for row in rows:
            verdicts[row] = result
    return [verdict for verdict in verdicts if verdict is not None]


def _at_once(
    verifier: Verifier, response: str, gold: str, pattern: str | None, choices: Sequence[str]
) -> Verdict | tuple[str, str]:
    """The verdict, or else what a worker must judge: (answer or response, gold)."""
    if verifier.answers is not None:
        answer = answers.extract(response, pattern)
        if not answer:
            return Verdict("unparsed", "", NO_ANSWER if pattern is None else NO_MATCH)
        return verifier.answers.quick(answer, gold) or (answer, gold)
    if pattern is not None:
        answer = answers.matched(response, pattern)
        if not answer:
            return Verdict("unparsed", "", NO_MATCH)
        response = f"\\boxed{{{answer}}}" if verifier.name == "choice" else answer
    if verifier.name == "choice":
        return choice.judge(response, gold, choices)
    if verifier.source is not None:
        return response, gold
    try:
        return verifier.judge(response, gold)
    except Exception as error:
        return Verdict("unparsed", "", f"{FAILED}{type(error).__name__}: {error}")


def _judged(name: str, source: str | None, text: str, gold: str) -> Verdict:
    """In a worker: the verdict of a verifier."""
    verifier = _load(name, source)
    compare = verifier.judge if verifier.answers is None else verifier.answers.compare
    return compare(text, gold)


def _prepared(name: str, source: str | None, text: str, gold: str) -> None:
    """In a worker, before the limits of a call count: import its verifier."""
    _load(name, source)


def _load(name: str, source: str | None) -> Verifier:
    """In a worker: the verifier of that name, from its plugin or module."""
    if source is not None and source.endswith(".py"):
        plugins.load(source)
    return find_verifier(name)


def _from_fault(verifier: Verifier, text: str, fault: Fault) -> Verdict:
    """The verdict on an answer whose judging failed (unparsed) or exceeded a limit (timeout)."""
    extracted = text[:200] if verifier.answers else ""
    if fault.kind == "error":
        return Verdict("unparsed", extracted, FAILED + fault.message)
    return Verdict("timeout", extracted, fault.message)
