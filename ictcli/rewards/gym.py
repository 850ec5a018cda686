"""The generators of reasoning-gym (arXiv 2505.24760) by name and options, and the verifier `gym`:
their own score of an answer, from 0 to 1. The score is the reward; 1 is correct.
"""

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
"""Class and options of each generator, by its name."""
UNANSWERED = (
    *("ab", "boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube"),
    "rush_hour",
)
"""Generators of version 0.1.25 that make no task: some problems have no text as answer, and
`composite` wants options that no key can give."""
SIZE = 2048
"""Default of the option `size` of every generator, its problems to train on."""
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
    """Return the generator `gym:NAME:key=value:...` with a seed: entry i of `size` is a table of
    question, answer and metadata. UserError for an unknown name or option, or a wrong value."""
    kind, options = chosen(name)
    build, settings = DATASETS[kind]
    try:
        return build(settings(**{**options, "seed": seed, "size": size}))
    except Exception as error:
        raise UserError(
            f"{name} cannot be made with these options: {reason_of(error)}.", _hint(kind)
        ) from error


def chosen(name: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a generator, and the options given, seed and size among them. UserError
    for one that it has not, or of another type than its default."""
    kind, options = parted(name)
    known = options_of(kind)
    for key, value in options.items():
        if key not in known:
            raise UserError(
                f"{GYM}{kind} has no option {key!r}{nearest(key, list(known))}.", _hint(kind)
            )
        usual = known[key]
        kinds: set[Any] = {type(usual), DATASETS[kind][1].__annotations__.get(key)}
        kinds |= {int} if float in kinds else set()
        if type(usual) in (bool, int, float, str) and type(value) not in kinds:
            raise UserError(
                f"{name}: {key} takes values like {usual!r}, not {value!r}.", _hint(kind)
            )
    return kind, options


def _hint(kind: str) -> str:
    has = ", ".join(f"{option}={value}" for option, value in options_of(kind).items())
    return f"its options, and their defaults: {has}"


def options_of(kind: str) -> dict[str, Any]:
    """Return the options of a generator and their defaults. UserError for an unknown one."""
    if kind not in DATASETS:
        raise UserError(
            f"reasoning-gym has no generator {kind!r}{nearest(kind, sorted(DATASETS))}.",
            "ictcli tasks ls lists them",
        )
    return {**vars(DATASETS[kind][1]()), "seed": 0, "size": SIZE}


def about(kind: str) -> str:
    """Return a sentence on what a generator makes: its own, or else its kind."""
    made = DATASETS[kind][0]
    words = " ".join((made.__doc__ or "").partition("\n\n")[0].split())
    first = _END.split(_LINK.sub(r"\1", words))[0].rstrip(".")
    if not first or kind == "codeio":  # whose first sentence is a warning
        return f"Generates problems of the kind {made.__module__.split('.')[1]}."
    return f"{first}."


def scores(
    completions: Sequence[str],
    gym: Sequence[str],
    seed: Sequence[int],
    size: Sequence[int],
    index: Sequence[int],
) -> list[Verdict]:
    """Return the verdicts on answers to problem `index` of a generator's seed and size. It is made
    again here: a score may evaluate parts of a problem as Python, and data may be anybody's."""
    places = zip(gym, seed, size, index, strict=True)
    entries = (generator(name, start, many)[at] for name, start, many, at in places)
    return [_verdict(*row) for row in zip(completions, entries, gym, strict=True)]


def _verdict(text: str, entry: dict[str, Any], name: str) -> Verdict:
    answer = _TEXT.sub(r"\1", text).strip()
    if _THOUSANDS.fullmatch(answer) and "," not in entry["answer"]:
        answer = answer.replace(",", "")
    judge, known = generator(name), None if _FORMULA.fullmatch(answer) else repr(entry)
    try:
        with _watched(known):
            score = float(judge.score_answer(answer, entry))
    except _CodeError:
        return Verdict("unparsed", answer[:200], AS_CODE)
    except Exception as error:  # some scores fail at what they cannot read
        return Verdict("unparsed", answer[:200], f"reasoning-gym: {reason_of(error)}")
    return Verdict("correct" if score >= 1 else "wrong", answer[:200], score=score)


class _CodeError(BaseException):
    """Not caught by the `except Exception` of a score."""


class _Watch:
    """The audit hook of this process, which cannot remove an audit hook."""

    hooked = False
    known: str | None = None
    """The problem, while an answer to it is scored that may be code."""
    source = ""
    """What was compiled last."""


@contextmanager
def _watched(known: str | None) -> Generator[None]:
    """Refuse `eval` on an answer, which some scores call. Run no code but that of files, and
    expressions of the problem that is `known`; None: whatever is called."""
    if not _Watch.hooked:
        sys.addaudithook(_audit)
        _Watch.hooked = True
    _Watch.known, _Watch.source = known, ""
    try:
        yield
    finally:
        _Watch.known = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _Watch.known is None:
        return
    if event == "compile":
        text: object = arguments[0]
        _Watch.source = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    elif event == "exec" and isinstance(code := arguments[0], CodeType):
        typed = code.co_filename in ("", "<string>")
        if typed and _Watch.source.strip() not in _Watch.known:
            raise _CodeError
