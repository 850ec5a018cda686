"""Judging one response or many, each answer within limits of time and memory."""

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
    if isinstance(responses, str) or isinstance(golds, str):
        if not isinstance(responses, str) or not isinstance(golds, str):
            raise ValueError("one response has one gold, many have as many")
        single = [choices] if choices else ()
        return grade([responses], [golds], kind, pattern=pattern, choices=single, limits=limits)[0]
    if choices and len(choices) != len(responses):
        raise ValueError(f"{len(responses)} responses, but choices for {len(choices)}")
    if len(responses) != len(golds):
        raise ValueError(f"{len(responses)} responses, but {len(golds)} golds")
    verifier = as_verifier(kind)
    if pattern is not None:
        answers.compiled(pattern)  # raises for an invalid pattern
    verdicts: dict[int, Verdict] = {}
    left: dict[tuple[str, str], list[int]] = {}  # what a worker must judge: the rows it is for
    for row, (response, gold) in enumerate(zip(responses, golds, strict=True)):
        verdict = _at_once(verifier, response, gold, pattern, choices[row] if choices else ())
        if isinstance(verdict, tuple):
            left.setdefault(verdict, []).append(row)
        else:
            verdicts[row] = verdict
    calls = [(verifier.name, verifier.source, *pair) for pair in left]
    results = isolated(_judged, calls, limits, prepare=_load)
    for (pair, rows), result in zip(left.items(), results, strict=True):
        if isinstance(result, Fault):
            failed = result.kind == "error"
            reason = FAILED + result.message if failed else result.message
            extracted = pair[0][:200] if verifier.answers else ""
            result = Verdict("unparsed" if failed else "timeout", extracted, reason)
        verdicts |= dict.fromkeys(rows, result)
    return [verdicts[row] for row in range(len(responses))]


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


def _load(name: str, source: str | None, *_: str) -> Verifier:
    """In a worker: the verifier of that name, from its plugin or module. It is imported before the
    limits of a call count."""
    if source is not None and source.endswith(".py"):
        plugins.load(source)
    return find_verifier(name)
