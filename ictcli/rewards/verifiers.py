"""Define verdicts and verifiers, and find verifiers by name."""

import contextlib
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ictcli.errors import UserError, install, nearest, unknown
from ictcli.files import LARGEST, encodable, gate, plugins

Status = Literal["correct", "wrong", "unparsed", "timeout"]
STATUSES: tuple[Status, ...] = get_args(Status)

FAILED = "the verifier failed: "
COPIED = "copied from the question"
UNFINISHED = "the answer is less simplified than the gold"
LONGEST_TEXT = 1000
"""Maximum number of characters of a verdict's texts; longer texts are cut."""
ABSTAINED = "the function gave no reward for this response"
UNREAD = (TypeError, AttributeError, IndexError)
"""Exceptions of a function in TRL's form that expects lists of messages and gets texts."""
ROWS = ("prompts", "completions")
"""Parameters of a function in TRL's form that are not columns of the data."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one response.

    `extracted` is the answer as text, `reason` an explanation if one is needed, and `score` a
    reward to use instead of 1 for correct and 0 otherwise. ValueError if |score| > `LARGEST`."""

    status: Status
    extracted: str = ""
    reason: str = ""
    score: float | None = None

    def __post_init__(self) -> None:
        if self.score is not None and not abs(self.score) <= LARGEST:
            raise ValueError(f"it gave a reward of {self.score:g}; the largest is {LARGEST:g}")

    @property
    def failed(self) -> bool:
        """Return whether the verifier itself failed."""
        return self.reason.startswith(FAILED)

    @property
    def reward(self) -> float:
        """Return the score; without a score, 1 for correct and 0 otherwise."""
        return float(self.status == "correct") if self.score is None else self.score


Judge = Callable[..., Any]
"""A function of (response, gold) or (response, gold, question) that returns a verdict. It gets the
answer instead of the response in a Verifier with `golds`; in a Verifier with `in_groups` it is a
function of (prompts, completions, columns) that returns a list of verdicts."""


@dataclass(frozen=True)
class Verifier:
    """A function that judges responses, its name, and how it is called."""

    name: str
    judge: Judge
    source: str | None = None
    """Where a worker imports `judge` from: a plugin `file.py` that registers it, `file.py:function`
    or `module:function`. None if the verifier is `named`, or runs in this process."""
    golds: Callable[[str], bool] | None = None
    """For a judge of mathematical answers: a function that returns whether answers can be compared
    with a gold. None for a judge of other answers or of whole responses."""
    in_groups: bool = False
    """Whether one call judges all responses to a problem (TRL's form)."""
    needs: tuple[str, ...] = ()
    """Columns of the data that `judge` requires."""
    boxed: bool = False
    """Whether `judge` gets the answer in the last box or after `####`, not the whole response."""
    named: bool = False
    """Whether the verifier comes with ictcli, so that a worker finds it by its name."""

    @property
    def runs_here(self) -> bool:
        """Return whether `judge` runs in this process, without limits: no worker can import it."""
        return self.source is None and not self.named

    def readable(self, gold: str) -> bool:
        """Return whether answers can be compared with this gold."""
        return self.golds is None or self.golds(gold)

    def check_columns(self, data: str, columns: Iterable[str], hint: str) -> None:
        """Raise UserError, with the hint, if the data lacks a column that the verifier needs."""
        available = list(dict.fromkeys(["question", "gold", *columns]))
        for column in self.needs:
            if column not in available:
                raise UserError(
                    f"{self.name} needs the column {column!r}{nearest(column, available)}, but "
                    f"{data} has only {', '.join(available)}.",
                    hint,
                )


@dataclass(frozen=True)
class Extra:
    """A verifier that needs a pip extra: its `module:function` and the library that it needs."""

    place: str
    library: str
    boxed: bool = False
    """The value of `Verifier.boxed`."""


VERIFIERS: dict[str, Verifier] = {}
OPTIONAL = {
    "math-verify": Extra("ictcli.rewards.public:math_verify", "math_verify"),
    "gym": Extra("ictcli.rewards.gym:scores", "reasoning_gym", boxed=True),
}


def register_verifier(
    name: str, golds: Callable[[str], bool] | None = None, *, boxed: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function (response, gold) -> Verdict or bool, which may
    have a parameter `question`, under `name`. `golds` and `boxed` are those of `Verifier`.
    Functions of plugin files run in worker processes, within the limits of `grade`."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        path = plugins.path_of(function.__module__)
        source = None if path is None else str(path)
        named = function.__module__.startswith("ictcli.")
        verifier = replace(made_of(name, function), source=source, golds=golds)
        VERIFIERS[name] = replace(verifier, boxed=boxed, named=named)
        return function

    return add


def made_of(name: str, function: Callable[..., Any]) -> Verifier:
    """Return a verifier that calls a function of (response, gold), or a function in TRL's form,
    which is recognized by its parameter `completions`."""
    parameters: Mapping[str, inspect.Parameter] = {}
    with contextlib.suppress(TypeError, ValueError):  # functions in C have no signature
        parameters = inspect.signature(function).parameters
    if "completions" not in parameters:
        return Verifier(name, checked(name, function, asks="question" in parameters))
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needs = tuple(
        key
        for key, param in parameters.items()
        if param.default is param.empty and param.kind not in several and key not in ROWS
    )
    takes_all = any(param.kind is param.VAR_KEYWORD for param in parameters.values())
    accepted = None if takes_all else frozenset(parameters)
    return Verifier(name, grouped(name, function, accepted), in_groups=True, needs=needs)


def grouped(name: str, function: Callable[..., Any], accepted: frozenset[str] | None) -> Judge:
    """Return a judge that calls a function in TRL's form, (prompts, completions, **columns) ->
    list of rewards, which may be async. `accepted`: the function's parameters; None: any. A reward
    of 1 or more is correct; None and NaN are no reward; the function may return Verdicts. If it
    fails on texts, it is called with lists of messages, as TRL passes chats. TypeError or
    ValueError if the function returns anything else."""

    def verdict(reward: Any) -> Verdict:
        if isinstance(reward, Verdict):
            return as_verdict(name, reward)
        if isinstance(reward, str | bytes | bytearray):
            raise TypeError(f"its reward is a text, {reward[:20]!r}, not a number")
        if reward is None or math.isnan(score := float(reward)):
            return Verdict("unparsed", "", ABSTAINED, 0.0)
        return Verdict("correct" if score >= 1 else "wrong", score=score)

    def called(prompts: Any, completions: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
        values = {"prompts": prompts, "completions": completions, **columns}
        if accepted is not None:
            values = {key: value for key, value in values.items() if key in accepted}
        rewards: Any = function(**values)
        if inspect.isawaitable(rewards):
            import asyncio  # slow to import

            return asyncio.run(_awaited(rewards))
        return rewards

    def judge(
        prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Sequence[Any]]
    ) -> list[Verdict]:
        n, chats = len(completions), _as_chats(prompts, completions)  # the call may change them
        try:
            rewards = called(prompts, completions, columns)
        except UNREAD:
            if chats is None:
                raise
            with contextlib.suppress(*UNREAD):
                return verdicts(called(*chats, columns), n)
            raise
        return verdicts(rewards, n)

    def verdicts(rewards: Any, n: int) -> list[Verdict]:
        no_list = isinstance(rewards, str | bytes | dict | set)
        if no_list or not hasattr(cast(object, rewards), "__len__"):
            what = f"{cast(object, rewards)!r:.80}, not a list,"
            raise TypeError(f"{name} gave {what} for {n} completions")
        if len(rewards) != n:
            raise TypeError(f"{name} gave {len(rewards)} rewards for {n} completions")
        return [verdict(reward) for reward in rewards]

    return judge


def _as_chats(prompts: Sequence[Any], completions: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return prompts and completions as lists of messages; None if any of them is not a text."""
    if not all(isinstance(text, str) for text in (*prompts, *completions)):
        return None
    asked = [[{"role": "user", "content": text}] for text in prompts]
    return asked, [[{"role": "assistant", "content": text}] for text in completions]


async def _awaited(rewards: Awaitable[Any]) -> Any:
    return await rewards


def checked(name: str, function: Callable[..., Any], *, asks: bool) -> Judge:
    """Return a judge that calls the function and passes its result through `as_verdict`. `asks`:
    whether the function has a parameter `question`."""

    def judge(response: str, gold: str, question: str = "") -> Verdict:
        return as_verdict(
            name, function(response, gold, **({"question": question} if asks else {}))
        )

    return judge


def as_verdict(name: str, result: Any) -> Verdict:
    """Return a function's result, a bool or a Verdict, as a Verdict with texts of at most
    `LONGEST_TEXT` characters. TypeError or ValueError for any other result."""
    if isinstance(result, bool):
        return Verdict("correct" if result else "wrong")
    if not isinstance(result, Verdict) or result.status not in STATUSES:
        raise TypeError(f"{name} gave {result!r:.80}, not a bool or a Verdict")
    texts: tuple[Any, ...] = (result.extracted, result.reason)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} gave a verdict with fields that are not text: {result!r:.80}")
    extracted, reason = (encodable(text[:LONGEST_TEXT]) for text in texts)
    score = None if result.score is None else float(result.score)
    return Verdict(result.status, extracted, reason, score)


def find_verifier(name: str) -> Verifier:
    """Return the verifier of that name, or the function `file.py:function` or `module:function`.
    UserError if there is none."""
    if name in VERIFIERS:
        return VERIFIERS[name]
    if extra := OPTIONAL.get(name):
        if importlib.util.find_spec(extra.library) is None:
            raise UserError(f"The verifier {name} is not installed.", install(name))
        return replace(find_verifier(extra.place), name=name, boxed=extra.boxed)
    place, colon, function = name.rpartition(":")
    if colon and place:
        return from_source(place, function)
    if name.endswith(".py"):
        raise UserError(f"{name} names a file, but no function in it.", f"for example {name}:grade")
    names = sorted({*VERIFIERS, *OPTIONAL})
    hint = f"the verifiers are: {', '.join(names)}; or my_rewards.py:function"
    raise unknown("verifier", name, names, hint)


def as_verifier(kind: str | Verifier | Judge) -> Verifier:
    """Return the verifier named `kind`, `kind` itself, or one that calls the function `kind`."""
    if isinstance(kind, str):
        return find_verifier(kind)
    return kind if isinstance(kind, Verifier) else made_of(name_of(kind) or "a function", kind)


def name_of(verify: Verifier | Judge) -> str:
    """Return a verifier's name in the metrics: for `file.py:function` the function's name."""
    name = verify.name if isinstance(verify, Verifier) else getattr(verify, "__name__", "")
    return name.rpartition(":")[2]


def from_source(place: str, function: str) -> Verifier:
    """Return a verifier that calls a function of a file or module. UserError if there is no such
    function, or its code is not allowed to run."""
    source = named = f"{place}:{function}"
    if place.endswith(".py"):
        path = plugins.load(place, typed=gate.is_typed(named))
        module, source = plugins.module_of(path), f"{path}:{function}"
        gate.admit(source, f"function {source}", plugins.source(path), named)
    else:
        if all(source != extra.place for extra in OPTIONAL.values()):
            code = gate.module_source(place)
            gate.admit(f"the module {place}", f"module {source}", code, named)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module = importlib.import_module(place)
        except Exception as error:
            raise UserError(
                f"The module {place} of the verifier {source} cannot be imported: "
                f"{type(error).__name__}: {error}.",
                "name a module that Python can import, or the path of a .py file",
            ) from error
    judge = getattr(module, function, None)
    if not callable(judge):
        raise UserError(
            f"{place} has no function {function!r}.",
            f"define it in {Path(place).name}, with parameters (response, gold) or "
            "(prompts, completions, **columns)",
        )
    return replace(made_of(source, judge), source=source)
