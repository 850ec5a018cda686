"""The paper's claims, each with a verdict at this size and the numbers it rests on.

`supported`: the difference has the paper's sign and is told from 0 at 5 % after Holm's correction.
`contradicted`: it is so told and has the other sign. `undecided`: everything else; it does not say
that there is no difference, and the sentence says how large a one would have been seen. One seed
decides nothing. Source of the claims: arXiv 2606.19771; where it leaves a term open, ours:

- *Better than random tokens of the same number*: against `random` with the same swept settings;
  undecided where the shares that the two trained differ by more than a tenth of the larger.
- *pass@4 gains more than pass@1*: the difference of (pass@4 - pass@1) from the rival's, in points,
  against grpo (what the paper's text compares) and against the model before training (which the
  paper's own table contradicts for 1.5B and 7B). It is supported only where pass@4 itself gains,
  told from 0 by Holm's correction in that difference's place: a smaller loss is no larger gain, and
  a loss that is told contradicts it. Points are not a neutral scale: where most problems are hard
  pass@4 gains more by arithmetic, where most are easy less; the room that was left stands in the
  sentence.

The tests against grpo and random, and of the gains, are one family of Holm's (`main`); those
against every other method, and larger shares, are a second one (`second`); those of the forks a
third (`fork`). None of them is the family of the differences from the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from ictcli.compare.crossed import LEVEL
from ictcli.compare.statistics import (
    BEFORE,
    PairedDifference,
    Scores,
    corrected,
    difference,
    paired,
)

Verdict = Literal["supported", "contradicted", "undecided"]
SUBJECT = "ict"
CONTROL = "random"
SAME = 0.1
"""Of the larger of two shares, by which they may differ and be called the same number."""


@dataclass(frozen=True, kw_only=True)
class JudgedDifference(PairedDifference):
    """The difference a claim rests on, with its family of Holm's correction."""

    rival: str
    family: str
    tests: int
    """How many tests the family has."""


@dataclass(frozen=True)
class EntropyRatio:
    """Final over first mean H1: its geometric mean over seeds with a 95 % interval."""

    ratio: float
    low: float | None
    high: float | None
    ratios: list[float]
    """Of each seed."""
    alarmed: int
    """Seeds that crossed a bound at some step."""
    seeds: int


@dataclass(frozen=True)
class PredictionQuality:
    """Predicted against measured dH2: each figure with its 95 % interval over seeds."""

    pearson: tuple[float, float | None, float | None]
    error: tuple[float, float | None, float | None]
    seeds: int


@dataclass(frozen=True)
class Claim:
    """One claim of the paper; `name` holds the variant it is about."""

    name: str
    verdict: Verdict
    sentence: str
    numbers: JudgedDifference | EntropyRatio | PredictionQuality


@dataclass(frozen=True)
class _Test:
    name: str
    what: str
    """The start of the sentence, up to the number of points."""
    rival: str
    found: PairedDifference
    note: str = ""
    gain: tuple[str, PairedDifference] | None = None
    """The metric and the gain that must itself be told to be above 0 for support."""
    fair: bool = True
    """Whether the two are what the claim compares; no verdict otherwise."""


@dataclass(frozen=True)
class Trained:
    """Shares of tokens that a variant's runs trained, means over seeds."""

    whole: float
    behind: float | None
    """Behind the dense warm-up; None where that takes every step."""


def accuracy_claims(scores: Scores, kept: Mapping[str, Trained] | None = None) -> list[Claim]:
    """Whether each variant of ict is better than grpo, than random tokens and than the others, by
    each metric, and what it gains. `kept`: the share of tokens each variant trained, to show beside
    the comparison with random. Empty without a variant of ict; what was not run, or shares
    no seed with it, is not judged."""
    variants = list(next(iter(scores.values())))
    first: list[_Test] = []
    second: list[_Test] = []
    for variant in [v for v in variants if method_of(v) == SUBJECT]:
        for method in dict.fromkeys(map(method_of, variants)):
            rival = _counterpart(variant, method, variants)
            if rival in (None, BEFORE) or method == SUBJECT:
                continue
            note, fair = "", True
            if method == CONTROL and kept and variant in kept and rival in kept:
                note, fair = _number(kept[variant], kept[rival])
            family = first if method in ("grpo", CONTROL) else second
            family.extend(_better(scores, variant, rival, note, fair=fair))
        for rival in ("grpo", BEFORE):
            against = rival if rival == BEFORE else _counterpart(variant, rival, variants)
            if against in variants:
                first.extend(_gain(scores, variant, against))
        for larger in [v for v in variants if _is_larger_share(variant, v)]:
            second.extend(_better(scores, variant, larger, ""))
    return [*_judged(first, "main"), *_judged(second, "second")]


def fork_claims(
    recall: Mapping[str, Sequence[float]], kept: Mapping[str, float] | None = None
) -> list[Claim]:
    """Whether unique tokens are the forks: recall of the true forks while training, by variant a
    figure a seed (NaN where its run is missing), each variant of ict on its own rollouts and at its
    own share, against random tokens and the highest entropy with the same swept settings. `kept`:
    the share of tokens each trained in those steps, which the sentence names, since recall grows
    with it. At an equal share: `ictcli.compare.forks`."""
    tests: list[_Test] = []
    for variant in [one for one in recall if method_of(one) == SUBJECT]:
        mine = np.asarray(recall[variant], dtype=np.float64)
        for method in (CONTROL, "entropy20"):
            rival = _counterpart(variant, method, list(recall))
            other = np.asarray(recall[rival] if rival else [], dtype=np.float64)
            if rival is None or not paired(mine[:, None], other[:, None]):
                continue
            what = f"{variant}'s recall of the true forks while training"
            mean = f" ({_percent(float(np.nanmean(mine)))})"
            name = f"unique tokens are forks, more than those of {rival}"
            if variant != SUBJECT:
                name = f"the unique tokens of {variant} are forks, more than those of {rival}"
            note, fair = "", True
            if kept and variant in kept and rival in kept:
                shares = [f"{one} {_percent(kept[one])}" for one in (variant, rival)]
                fair = method != CONTROL or same_number(kept[variant], kept[rival])
                note = f" Each keeps its own share: {shares[0]} of the tokens, {shares[1]}"
                note += "." if fair else ": not the same number, so nothing is decided."
            found = difference(mine[:, None], other[:, None])
            tests.append(_Test(name, what + mean, rival, found, note, fair=fair))
    return _judged(tests, "fork")


def _number(mine: Trained, other: Trained) -> tuple[str, bool]:
    """A sentence on the shares of tokens that two variants trained, and whether they are the same
    number wherever they chose."""
    note = f" They trained {_percent(mine.whole)} and {_percent(other.whole)} of the tokens"
    if mine.behind is None and other.behind is None:
        return note + ": the dense warm-up takes every step, so the two are one method.", True
    ends = [one.whole if one.behind is None else one.behind for one in (mine, other)]
    if [mine.whole, other.whole] != ends:
        note += f", {_percent(ends[0])} and {_percent(ends[1])} behind the dense warm-up"
    fair = same_number(*ends)
    return note + ("." if fair else ": not the same number, so nothing is decided."), fair


def same_number(one: float, other: float) -> bool:
    """Whether two shares of tokens differ by a tenth of the larger at most."""
    return abs(one - other) <= SAME * max(one, other)


def method_of(variant: str) -> str:
    return variant.split(" ")[0]


def _settings(variant: str) -> dict[str, float | str]:
    """The swept settings of a variant's label; those that are numbers, as numbers."""
    pairs = (setting.partition("=") for setting in variant.split(" ")[1:])
    return {key: _value(text) for key, _, text in pairs}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _counterpart(variant: str, method: str, variants: Sequence[str]) -> str | None:
    """The variant of `method` with as many of the same swept settings as it has, and no others."""
    mine = _settings(variant).items()
    fits = [v for v in variants if method_of(v) == method and _settings(v).items() <= mine]
    return max(fits, key=lambda v: len(_settings(v)), default=None)


def _is_larger_share(variant: str, other: str) -> bool:
    """Whether both are ict, at keep=0.1 and at more, with the same settings else."""
    mine, others = _settings(variant), _settings(other)
    keep, more = mine.pop("keep", None), others.pop("keep", None)
    alike = method_of(other) == SUBJECT and mine == others and keep == 0.1
    return alike and isinstance(more, float) and more > 0.1


def _better(
    scores: Scores, variant: str, rival: str, note: str, *, fair: bool = True
) -> list[_Test]:
    return [
        _Test(
            f"{variant} is better than {rival}: {metric}",
            f"{variant}'s {metric}",
            rival,
            difference(mine[variant], mine[rival]),
            note,
            fair=fair,
        )
        for metric, mine in scores.items()
        if paired(mine[variant], mine[rival])
    ]


def _gain(scores: Scores, variant: str, rival: str) -> list[_Test]:
    """The gain over `rival` in pass@4 (the largest k where there is none) less that in pass@1."""
    ks = sorted(int(m.removeprefix("pass@")) for m in scores if m.startswith("pass@"))
    if 1 not in ks or len(ks) < 2:
        return []
    one, many = scores["pass@1"], scores[metric := "pass@4" if 4 in ks else f"pass@{ks[-1]}"]
    if not paired(one[variant], one[rival]):
        return []
    room = [100 * (1 - float(np.nanmean(mine[rival]))) for mine in (one, many)]
    alone = [difference(mine[variant], mine[rival]) for mine in (many, one)]
    return [
        _Test(
            f"{variant} gains more in {metric} than in pass@1 over {_plain(rival)}",
            f"{variant}'s gain in {metric} over {_plain(rival)}",
            "its gain in pass@1",
            difference(many[variant] - one[variant], many[rival] - one[rival]),
            f" The gains are {_signed(alone[0].value)} points in {metric} and "
            f"{_signed(alone[1].value)} in pass@1; {_plain(rival)} left {room[0]:.1f} points to "
            f"gain in pass@1 and {room[1]:.1f} in {metric}.",
            (metric, alone[0]),
        )
    ]


def _judged(tests: Sequence[_Test], family: str) -> list[Claim]:
    """One family of tests, corrected together."""
    found = corrected([test.found for test in tests])
    size = sum(each.p is not None for each in found)
    claims: list[Claim] = []
    for place, (test, each) in enumerate(zip(tests, found, strict=True)):
        verdict: Verdict = "undecided"
        if each.differs:
            verdict = "supported" if each.value > 0 else "contradicted"
        verdict, more = (verdict if test.fair else "undecided"), ""
        if test.gain:
            metric, gain = test.gain
            others = [one.found for one in tests]
            gain = corrected([*others[:place], gain, *others[place + 1 :]])[place]
            if gain.differs and gain.value < 0:
                verdict, more = "contradicted", f" So {metric} loses."
            elif verdict == "supported" and not gain.differs:
                verdict, more = "undecided", f" That in {metric} is itself not told from 0."
        numbers = JudgedDifference(**asdict(each), rival=test.rival, family=family, tests=size)
        sentence = _sentence(test, each, size, family) + more
        claims.append(Claim(test.name, verdict, sentence, numbers))
    return claims


def _sentence(test: _Test, found: PairedDifference, size: int, family: str) -> str:
    rival = test.rival if test.rival.startswith("its") else f"{_plain(test.rival)}'s"
    side = "above" if found.value >= 0 else "below"
    told = [f"{_capital(test.what)} is {abs(100 * found.value):.1f} points {side} {rival}"]
    if found.low is not None and found.high is not None and found.p is not None:
        p = "p " + ("< 0.001" if found.p < 0.001 else f"= {_p(found.p)}")
        if size > 1 and found.p_holm is not None:
            over = f"{size} tests of the {family} family"
            p += f", {_p(found.p_holm)} after Holm's correction over {over}"
        told.append(f"(95 % interval {_signed(found.low)} to {_signed(found.high)}; {p})")
    size_told = f"over {counted(found.seeds, 'seed')}"
    size_told += f" and {counted(found.problems, 'problem')}" if found.problems > 1 else ""
    told.append(size_told)
    seen = f"a difference of {100 * (found.detectable or 0):.1f} points would be seen 4 times in 5"
    if found.seeds == 1:
        told[-1] += ": one seed cannot tell a method from its luck"
    elif not found.differs:
        told[-1] += ", not told from 0"
        told[-1] += " after the correction" if found.p is not None and found.p <= LEVEL else ""
        told[-1] += f"; {seen} before correction" if found.detectable else ""
    elif found.detectable:
        told[-1] += f", where {seen} before correction"
    return " ".join(told) + "." + test.note


def _signed(share: float) -> str:
    """Points, with a minus that is no hyphen."""
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "\u2212")


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _plain(variant: str) -> str:
    return "the model before training" if variant == BEFORE else variant


def _capital(text: str) -> str:
    return text[0].upper() + text[1:] if text.startswith(("at ", "the ")) else text
