"""Grade one response or many, each within limits of time and memory."""

import functools
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, TypedDict, Unpack, cast, overload

from ictcli.files import plugins
from ictcli.rewards import answers, choice
from ictcli.rewards.answers import LONGEST_AT_ONCE, Located
from ictcli.rewards.builtin import math_at_once, rewarded
from ictcli.rewards.explanations import Explanation, Row, explained
from ictcli.rewards.maths.compare import listed
from ictcli.rewards.maths.copies import without_asked
from ictcli.rewards.said import said
from ictcli.rewards.verifiers import FAILED, Judge, Verdict, Verifier, as_verifier, find_verifier
from ictcli.rewards.worker import described
from ictcli.rewards.workers import Fault, Limits, isolated

LIMITS = Limits()
Kind = str | Verifier | Judge
Texts = Sequence[str]
NO_COLUMNS: Mapping[str, Any] = {}
NOT_PASSED = ("prompt", "completion", "completion_ids")
"""Columns of the data that are not passed by name to functions in TRL's form."""


class Options(TypedDict, total=False):
    """Options of `grade` and `explain`."""

    pattern: str | None
    choices: Sequence[Any]
    questions: str | Texts
    columns: Sequence[Mapping[str, Any]]
    limits: Limits


@overload
def grade(  # pyright: ignore[reportOverlappingOverload]  # a str is a Sequence[str] too
    responses: str, golds: str, kind: Kind = ..., **options: Unpack[Options]
) -> Verdict: ...
@overload
def grade(
    responses: Texts, golds: Texts, kind: Kind = ..., **options: Unpack[Options]
) -> list[Verdict]: ...
def grade(
    responses: str | Texts, golds: str | Texts, kind: Kind = "math", **options: Unpack[Options]
) -> Verdict | list[Verdict]:
    """Return the verdict on a response, or a list of verdicts on many; a failure on one does not
    affect the others. docs/verifiers.md says which answers count as equal.

    `kind` is a verifier's name (math, integer, text, choice, chain, a plugin's, or
    `file.py:function`), a Verifier, or a function of (response, gold) that runs in this process; a
    function with a parameter `question` gets the question too.

    Options: `pattern` is a regular expression whose first group is the answer, instead of the last
    box. `choices` are the texts of (A), (B), ... for kind "choice", one sequence per response.
    `questions` are the questions' texts: an answer copied from them is wrong. `columns` are the
    rows of the data, for functions in TRL's form; one call judges neighbouring responses with the
    same question, gold and row. `limits` apply to calls in worker processes, which judge all that
    a quick comparison cannot decide.

    UserError if the kind is unknown or the pattern invalid; ValueError if the numbers of responses,
    golds, choices, questions and columns differ."""
    if isinstance(responses, str) != isinstance(golds, str):
        raise ValueError("pass one response and one gold, or as many golds as responses")
    if isinstance(responses, str) and isinstance(golds, str):
        lists = {key: [options.get(key)] for key in ("choices", "questions") if options.get(key)}
        return _graded([responses], [golds], kind, **cast(Any, {**options, **lists}))[2][0]
    return _graded(responses, golds, kind, **options)[2]


def explain(
    responses: Texts, golds: Texts, kind: Kind = "math", **options: Unpack[Options]
) -> list[Explanation]:
    """Return the verdicts of `grade`, each with how the answer and the gold were parsed."""
    verifier, rows, verdicts = _graded(responses, golds, kind, **options)
    return [explained(verifier, *judged) for judged in zip(verdicts, rows, strict=True)]


def _graded(
    responses: Texts,
    golds: Texts,
    kind: Kind,
    pattern: str | None = None,
    choices: Sequence[Any] = (),
    questions: str | Texts = (),
    columns: Sequence[Mapping[str, Any]] = (),
    limits: Limits = LIMITS,
) -> tuple[Verifier, list[Row], list[Verdict]]:
    lists = {"golds": golds, "choices": choices, "questions": questions, "columns": columns}
    for name, values in lists.items():
        if len(values) != len(responses) and (values or name == "golds"):
            raise ValueError(f"{len(responses)} responses, but {len(values)} {name}")
    verifier = as_verifier(kind)
    if pattern is not None:
        answers.compiled(pattern)  # raises for an invalid pattern
    marked = verifier.judge is choice.verdict or verifier.boxed or verifier.golds is not None
    rows: list[Row] = []
    for row, (response, gold) in enumerate(zip(responses, golds, strict=True)):
        question = questions[row] if questions else ""
        seen = said(response) if marked else response
        text = seen if pattern is None else response
        located = _located(verifier, text, gold, question, pattern, limits)
        data = columns[row] if columns else NO_COLUMNS
        rows.append(Row(seen, gold, choices[row] if choices else (), located, question, data))
    return verifier, rows, _verdicts(verifier, rows, pattern is not None, limits)


def _located(
    verifier: Verifier, response: str, gold: str, question: str, pattern: str | None, limits: Limits
) -> Located:
    if pattern is not None:
        located = answers.matched(response, pattern, min(answers.PATTERN_SECONDS, limits.seconds))
    elif verifier.golds is not None:
        located = answers.located(response, gold, listed)
    elif verifier.judge is choice.verdict or verifier.boxed:
        return answers.located(response)
    else:
        return Located(response, "response")
    if verifier.golds is not None and located.answer:
        located = located._replace(answer=without_asked(located.answer, gold, question))
    return located


def _verdicts(
    verifier: Verifier, rows: Sequence[Row], required: bool, limits: Limits
) -> list[Verdict]:
    """Return a verdict per row. If `required`, a row without an answer is unparsed."""
    quick = [_at_once(verifier, row, required) for row in rows]
    verdicts = {place: verdict for place, verdict in enumerate(quick) if verdict is not None}
    calls = _calls(verifier, rows, [place for place in range(len(rows)) if place not in verdicts])
    if verifier.runs_here:
        results = [_here(verifier.judge, *texts) for texts, _ in calls]
    else:
        named = [(verifier.name, verifier.source, *texts) for texts, _ in calls]
        results = isolated(_judged, named, limits, prepare=_load)
    for (texts, places), result in zip(calls, results, strict=True):
        if isinstance(result, Fault):
            result = _without(result, texts[0][:200] if verifier.golds else "")
        batch = cast(list[Verdict], result if isinstance(result, list) else [result] * len(places))
        verdicts |= zip(places, batch, strict=True)
    if verifier.golds is None:
        return [verdicts[place] for place in range(len(rows))]
    return [
        rewarded(verdicts[place], row.found.answer or "", row.gold, row.question)
        for place, row in enumerate(rows)
    ]


def _at_once(verifier: Verifier, row: Row, required: bool) -> Verdict | None:
    answer = row.found.answer or ""
    if not answer and (required or verifier.golds is not None or verifier.boxed):
        return Verdict("unparsed", "", row.found.missing)
    if verifier.golds is not None:
        return math_at_once(answer, row.gold)
    if verifier.named and len(row.response) + len(row.gold) <= LONGEST_AT_ONCE:
        return verifier.judge(*_texts(verifier, row))
    return None


def _calls(
    verifier: Verifier, rows: Sequence[Row], places: Sequence[int]
) -> list[tuple[tuple[Any, ...], list[int]]]:
    """Return the calls that judge the rows with the indices `places`, as (arguments, indices of the
    rows that the call judges). A worker judges equal texts once. A verifier that judges in groups
    gets neighbouring rows with the same question, gold and columns in one call."""

    def problem(place: int) -> tuple[int, str, str]:
        return id(rows[place].columns), rows[place].question, rows[place].gold

    if verifier.in_groups:
        groups = [list(group) for _, group in groupby(places, problem)]
        return [(_as_arguments([rows[place] for place in group]), group) for group in groups]

    if verifier.runs_here:
        return [(_texts(verifier, rows[place]), [place]) for place in places]
    calls: dict[tuple[Any, ...], list[int]] = {}
    for place in places:
        calls.setdefault(_texts(verifier, rows[place]), []).append(place)
    return list(calls.items())


def _texts(verifier: Verifier, row: Row) -> tuple[Any, ...]:
    """Return the arguments of the call that judges one row (unless the verifier judges groups)."""
    if verifier.judge is choice.verdict:
        return row.response, row.gold, tuple(row.choices), row.found
    asked = () if verifier.golds is not None else (row.question,)
    return row.found.answer or "", row.gold, *asked


def _without(fault: Fault, extracted: str = "") -> Verdict:
    if fault.kind in ("error", "died"):
        return Verdict("unparsed", extracted, FAILED + fault.message)
    return Verdict("timeout", extracted, fault.message)


def _here(judge: Judge, *arguments: Any) -> Any:
    """Call a function in this process; return its result, or a Fault if it raises an Exception."""
    try:
        return judge(*arguments)
    except Exception as error:
        return described(error)


def _as_arguments(rows: Sequence[Row]) -> tuple[list[Any], list[Any], dict[str, list[Any]]]:
    """Return the prompts, completions and columns of the responses to one problem, as TRL passes
    them: texts, or lists of messages if the prompt in the data is a list of messages."""
    first, n = rows[0], len(rows)
    asked = first.columns.get("prompt")
    messages = cast(list[Any], asked) if isinstance(asked, list) else []
    is_chat = bool(messages) and isinstance(messages[0], dict)
    texts = [row.found.answer or "" for row in rows]
    completions: list[Any] = texts
    if is_chat:
        completions = [[{"role": "assistant", "content": text}] for text in texts]
    values = {"question": first.question, "gold": first.gold, **first.columns}
    columns = {key: [value] * n for key, value in values.items() if key not in NOT_PASSED}
    return [messages if is_chat else first.question] * n, completions, columns


def _judged(name: str, source: str | None, *arguments: Any) -> Any:
    """Judge in a worker process; return a verdict, or a list of them for a group of responses."""
    return _load(name, source).judge(*arguments)


def _load(name: str, source: str | None, *_: Any) -> Verifier:
    """Return a verifier, imported in a worker process before the limits of a call apply."""
    if source is not None and source.endswith(".py"):
        plugins.load(source)
    verifier = find_verifier(name)
    if verifier.golds is not None:
        _import_sympy()
    return verifier


@functools.cache
def _import_sympy() -> None:
    from ictcli.rewards.maths import symbols

    symbols.equal("\\frac{x}{2}", "\\sqrt{x}")  # sympy imports more at its first use
