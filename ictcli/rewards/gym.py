"""Find the generators of reasoning-gym (arXiv 2505.24760) by name and options, and score answers
with the verifier `gym`: the reward is the generator's own score, from 0 to 1; 1 is correct."""

import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any, cast

from reasoning_gym import factory  # pyright: ignore[reportMissingTypeStubs]

from ictcli.errors import UserError, nearest, reason_of
from ictcli.recipe.generator import GYM, parted
from ictcli.rewards.verifiers import Verdict

DATASETS: dict[str, tuple[Any, Any]] = cast(Any, factory).DATASETS
"""Dataset class and options class of each generator, by the generator's name."""
UNANSWERED = (
    *("ab", "boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube"),
    "rush_hour",
)
"""Generators of version 0.1.25 that cannot be tasks: some of their answers are not text, and
`composite` needs options that a task's name cannot express."""
SIZE = 2048
"""Default of each generator's option `size`, the number of problems to train on."""
AS_CODE = "reasoning-gym would run this answer as Python"
_FORMULA = re.compile(
    r"(?:\d++(?:\.\d*+)?|[\s+\-*/()^]|\b(?:[A-Za-z]|sin|cos|tan|exp|log|ln|sqrt)\b(?!\s*\.))++"
)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[\w\])])\. |(?: by| together with)?: ?(?=$|[-\d])")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")


@lru_cache(maxsize=16)
def generator(name: str, seed: int = 0, size: int = 1) -> Any:
    """Return the generator named `gym:NAME:key=value:...`; its item i < `size` is a dict of
    question, answer and metadata. UserError if the name, an option or a value is invalid."""
    kind, options = chosen(name)
    build, settings = DATASETS[kind]
    try:
        return build(settings(**{**options, "seed": seed, "size": size}))
    except Exception as error:
        raise UserError(
            f"{name} cannot be made with these options: {reason_of(error)}.", _hint(kind)
        ) from error


def chosen(name: str) -> tuple[str, dict[str, Any]]:
    """Return the generator's name and the options (possibly seed and size) set in `name`. UserError
    if the generator has no such option, or a value is not of the default's type."""
    kind, options = parted(name)
    defaults = options_of(kind)
    for key, value in options.items():
        if key not in defaults:
            raise UserError(
                f"{GYM}{kind} has no option {key!r}{nearest(key, list(defaults))}.", _hint(kind)
            )
        default = defaults[key]
        types: set[Any] = {type(default), DATASETS[kind][1].__annotations__.get(key)}
        types |= {int} if float in types else set()
        if type(default) in (bool, int, float, str) and type(value) not in types:
            raise UserError(
                f"{name}: {key} takes values like {default!r}, not {value!r}.", _hint(kind)
            )
    return kind, options


def _hint(kind: str) -> str:
    has = ", ".join(f"{option}={value}" for option, value in options_of(kind).items())
    return f"its options and their defaults: {has}"


def options_of(kind: str) -> dict[str, Any]:
    """Return a generator's options with their defaults. UserError if there is no such generator."""
    if kind not in DATASETS:
        raise UserError(
            f"reasoning-gym has no generator {kind!r}{nearest(kind, sorted(DATASETS))}.",
            "ictcli tasks ls lists them",
        )
    return {**vars(DATASETS[kind][1]()), "seed": 0, "size": SIZE}


def about(kind: str) -> str:
    """Return a sentence on what a generator makes: the first sentence of its docstring, if any."""
    dataset = DATASETS[kind][0]
    words = " ".join((dataset.__doc__ or "").partition("\n\n")[0].split())
    first = _END.split(_LINK.sub(r"\1", words))[0].rstrip(".")
    if not first or kind == "codeio":  # its first sentence is a warning
        return f"Generates problems of the kind {dataset.__module__.split('.')[1]}."
    return f"{first}."


def scores(
    completions: Sequence[str],
    gym: Sequence[str],
    seed: Sequence[int],
    size: Sequence[int],
    index: Sequence[int],
) -> list[Verdict]:
    """Return the verdicts on answers to problem `index` of the generator `gym` with `seed` and
    `size`. The problem is generated anew, not read from the data, which may come from anyone: a
    score may evaluate parts of a problem as Python."""
    places = zip(gym, seed, size, index, strict=True)
    entries = (generator(name, start, many)[at] for name, start, many, at in places)
    return [_verdict(*row) for row in zip(completions, entries, gym, strict=True)]


def _verdict(text: str, entry: dict[str, Any], name: str) -> Verdict:
    answer = _TEXT.sub(r"\1", text).strip()
    if _THOUSANDS.fullmatch(answer) and "," not in entry["answer"]:
        answer = answer.replace(",", "")
    judge, problem = generator(name), None if _FORMULA.fullmatch(answer) else repr(entry)
    try:
        with _watched(problem):
            score = float(judge.score_answer(answer, entry))
    except _CodeError:
        return Verdict("unparsed", answer[:200], AS_CODE)
    except Exception as error:  # some scores fail on answers they cannot read
        return Verdict("unparsed", answer[:200], f"reasoning-gym: {reason_of(error)}")
    return Verdict("correct" if score >= 1 else "wrong", answer[:200], score=score)


class _CodeError(BaseException):
    """A score would run an answer as Python. The score's `except Exception` cannot catch this."""


class _Watch:
    """State of this process's audit hook, which is installed once as it cannot be removed."""

    hooked = False
    problem: str | None = None
    """Text of the problem, while an answer that may be code is scored; else None."""
    source = ""
    """Source text that was compiled last."""


@contextmanager
def _watched(problem: str | None) -> Generator[None]:
    """Raise _CodeError if the code in this context evaluates an answer, as some scores do with
    `eval`: only code of files and expressions that `problem` contains may run. None: all code."""
    if not _Watch.hooked:
        sys.addaudithook(_audit)
        _Watch.hooked = True
    _Watch.problem, _Watch.source = problem, ""
    try:
        yield
    finally:
        _Watch.problem = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _Watch.problem is None:
        return
    if event == "compile":
        text: object = arguments[0]
        _Watch.source = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    elif event == "exec" and isinstance(code := arguments[0], CodeType):
        typed = code.co_filename in ("", "<string>")
        if typed and _Watch.source.strip() not in _Watch.problem:
            raise _CodeError
