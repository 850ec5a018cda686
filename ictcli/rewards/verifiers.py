"""What a verifier is, and where verifiers are found."""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ictcli.errors import UserError, nearest
from ictcli.files import encodable
from ictcli.recipe import plugins

Status = Literal["correct", "wrong", "unparsed", "timeout"]
STATUSES: tuple[Status, ...] = get_args(Status)

FAILED = "the verifier failed: "


@dataclass(frozen=True)
class Verdict:
    """What a verifier says of one response.

    `extracted` is the answer that was read, as text; `reason` says why, where that is not plain;
    `score` is a reward other than 1 for correct and 0 for all else.
    """

    status: Status
    extracted: str = ""
    reason: str = ""
    score: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the verifier raised, and said nothing of the response."""
        return self.reason.startswith(FAILED)

    @property
    def reward(self) -> float:
        return float(self.status == "correct") if self.score is None else self.score


Judge = Callable[[str, str], Verdict]
"""(response, gold) to a verdict."""


@dataclass(frozen=True)
class Answers:
    """How a verifier that reads one answer from a response (`answers.extract`) compares it."""

    compare: Callable[[str, str], Verdict]
    """(answer, gold), as slow as it has to be; runs in a worker."""
    quick: Callable[[str, str], Verdict | None]
    """The same where it can be decided at once, without a worker; else None."""
    readable: Callable[[str], bool]
    """Whether a gold is one that an answer can be compared with."""


@dataclass(frozen=True)
class Verifier:
    """Called with (response, gold), it gives the verdict here and now, without limits; `grade` is
    the safe way."""

    name: str
    judge: Judge
    answers: Answers | None = None
    source: str | None = None
    """Where a worker finds it again: `file.py`, a plugin that registers it, or `file.py:function`
    or `module:function`. None: it is judged in this process."""

    def __call__(self, response: str, gold: str) -> Verdict:
        return self.judge(response, gold)

    def readable(self, gold: str) -> bool:
        return self.answers is None or self.answers.readable(gold)


VERIFIERS: dict[str, Verifier] = {}


def register_verifier(
    name: str, answers: Answers | None = None
) -> Callable[[Callable[[str, str], Any]], Callable[[str, str], Any]]:
    """Decorator: make a function `(response, gold) -> Verdict` (or a bool) available under `name`.
    Those of a plugin file run in a worker process, under the limits of `grade`."""

    def add(function: Callable[[str, str], Any]) -> Callable[[str, str], Any]:
        path = plugins.path_of(function.__module__)
        source = None if path is None else str(path)
        VERIFIERS[name] = Verifier(name, checked(name, function), answers, source)
        return function

    return add


def checked(name: str, function: Callable[[str, str], Any]) -> Judge:
    """The function, held to giving a Verdict (or a bool, which becomes one)."""

    def judge(response: str, gold: str) -> Verdict:
        found: Any = function(response, gold)
        if isinstance(found, bool):
            return Verdict("correct" if found else "wrong")
        if not isinstance(found, Verdict) or found.status not in STATUSES:
            raise TypeError(f"{name} gave {found!r:.80}, not a bool or a Verdict")
        texts: tuple[Any, ...] = (found.extracted, found.reason)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{name} gave a verdict whose texts are none: {found!r:.80}")
        score = None if found.score is None else float(found.score)
        if score is not None and not math.isfinite(score):
            raise ValueError(f"{name} gave a score of {score}")
        return Verdict(found.status, encodable(found.extracted), encodable(found.reason), score)

    return judge


def find_verifier(name: str) -> Verifier:
    """The verifier of that name, or the function at `file.py:function` or `module:function`;
    UserError where there is none."""
    if name in VERIFIERS:
        return VERIFIERS[name]
    place, colon, function = name.rpartition(":")
    if colon and place:
        return from_source(place, function)
    if name.endswith(".py"):
        raise UserError(
            f"{name} is a file, and the function in it is not named.", f"for example {name}:grade"
        )
    raise UserError(
        f"There is no verifier {name!r}{nearest(name, sorted(VERIFIERS))}.",
        "the verifiers are: " + ", ".join(sorted(VERIFIERS)) + "; or my_rewards.py:function",
    )


def as_verifier(kind: str | Verifier | Judge) -> Verifier:
    """A verifier by name, one as it is, or one made of a function, which runs in this process."""
    if isinstance(kind, str):
        return find_verifier(kind)
    if isinstance(kind, Verifier):
        return kind
    name = getattr(kind, "__name__", "a function")
    return Verifier(name, checked(name, kind))


def from_source(place: str, function: str) -> Verifier:
    """The verifier a file or an importable module holds under that name."""
    if place.endswith(".py"):
        path = plugins.load(place)
        module, source = plugins.module_of(path), f"{path}:{function}"
    else:
        source = f"{place}:{function}"
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module = importlib.import_module(place)
        except Exception as error:
            raise UserError(
                f"The module {place} of the verifier {source} cannot be imported: "
                f"{type(error).__name__}: {error}.",
                "a dotted path that Python can import, or the path of a .py file",
            ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UserError(
            f"{place} has no function {function!r}.",
            f"a verifier is a function (response, gold) of {Path(place).name}",
        )
    return Verifier(source, checked(source, found), None, source)
