"""The paper's claims, each with a verdict at this size and the numbers behind it.

`supported`: the difference has the paper's sign and is told from 0 at 5 % after Holm's correction.
`contradicted`: it is told from 0 and has the other sign. `undecided`: everything else, one seed
included; it is no evidence of equality. Source: arXiv 2606.19771; what it leaves open is ours:

- *Better than random tokens of the same number*: against `random` with the same swept settings;
  undecided if the shares that the two trained differ by more than a tenth of the larger.
- *pass@4 gains more than pass@1*: (pass@4 - pass@1) against that of grpo, which the paper's text
  compares, and of the model before training, which its own table contradicts for 1.5B and 7B.
  Supported only if the gain in pass@4 is itself told from 0, by Holm's correction in the place of
  that difference; a loss that is told from 0 contradicts it. Where most problems are hard, pass@4
  gains more by arithmetic; where most are easy, less: the sentence names the room that was left.

Holm's correction is by family: `main` holds the tests against grpo and random and those of the
gains, `second` those against other methods and larger shares, `fork` those of the forks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from ictcli.compare.caveats import Crashed, caveats
from ictcli.compare.numbers import bounds, counted, p_value, percent, points
from ictcli.compare.statistics import (
    BEFORE,
    PairedDifference,
    Scores,
    corrected,
    difference,
    paired,
)
from ictcli.compare.variants import counterpart, method_of, settings_of

Verdict = Literal["supported", "contradicted", "undecided"]
SUBJECT = "ict"
CONTROL = "random"
SAME = 0.1
"""Two shares are the same number if they differ by at most this part of the larger."""


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
    caveats: tuple[str, ...] = ()
    """Ceilings, floors and crashed runs that it touches."""

    @property
    def test(self) -> JudgedDifference | None:
        """The test it rests on; None if it is judged against bounds."""
        return self.numbers if isinstance(self.numbers, JudgedDifference) else None


@dataclass(frozen=True)
class _Test:
    name: str
    subject: str
    """What is compared: the start of the sentence."""
    rival: str
    difference: PairedDifference
    note: str = ""
    gain: tuple[str, PairedDifference] | None = None
    """A metric and the gain in it, which must itself be told to be above 0 for support."""
    comparable: bool = True
    """Whether the two are what the claim compares; otherwise it is undecided."""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """Shares of tokens that a variant's runs trained, means over seeds."""

    whole: float
    behind: float | None
    """After the dense warm-up; None if that takes every step."""


def accuracy_claims(
    scores: Scores,
    task: str,
    kept: Mapping[str, Trained] = {},
    crashed: Mapping[str, Sequence[int]] = {},
) -> list[Claim]:
    """By metric, whether each variant of ict is better than grpo, random tokens and the other
    methods, and what it gains. `kept`: the shares of tokens that variants trained, to compare with
    random. `crashed`: the runs that did. Pairs that share no seed are left out."""
    variants = list(next(iter(scores.values())))
    main: list[_Test] = []
    second: list[_Test] = []
    for variant in [label for label in variants if method_of(label) == SUBJECT]:
        for method in dict.fromkeys(map(method_of, variants)):
            rival = counterpart(variant, method, variants)
            if rival is None or method in (SUBJECT, BEFORE):
                continue
            note, comparable = _shares_note(kept if method == CONTROL else {}, variant, rival)
            family = main if method in ("grpo", CONTROL) else second
            family += _better(scores, task, variant, rival, crashed, note, comparable=comparable)
        for rival in (counterpart(variant, "grpo", variants), BEFORE):
            if rival in variants:
                main += _gain(scores, task, variant, rival, crashed)
        for larger in [label for label in variants if _is_larger_share(variant, label)]:
            second += _better(scores, task, variant, larger, crashed)
    return [*_judged(main, "main"), *_judged(second, "second")]


def fork_claims(
    recall: Mapping[str, Sequence[float]], kept: Mapping[str, float] = {}
) -> list[Claim]:
    """Whether unique tokens are the forks: each variant of ict, on its own rollouts and at its own
    share, against random tokens and the highest entropy with the same swept settings.

    recall: of the true forks while training, by variant a value per seed, NaN without a run.
    kept: shares of tokens trained in those steps. At an equal share: `ictcli.compare.forks`."""
    values = {label: np.array(seeds, dtype=np.float64)[:, None] for label, seeds in recall.items()}
    shares = {label: Trained(share, share) for label, share in kept.items()}
    tests: list[_Test] = []
    for variant in [label for label in recall if method_of(label) == SUBJECT]:
        for method in (CONTROL, "entropy20"):
            rival = counterpart(variant, method, list(recall))
            if rival is None or not paired(values[variant], values[rival]):
                continue
            tokens = "unique tokens" if variant == SUBJECT else f"the unique tokens of {variant}"
            must_match = method == CONTROL
            note, comparable = _shares_note(shares, variant, rival, must_match=must_match)
            mean = percent(float(np.nanmean(values[variant])))
            tests.append(
                _Test(
                    f"{tokens} are forks, more than those of {rival}",
                    f"{variant}'s recall of the true forks while training ({mean} %)",
                    rival,
                    difference(values[variant], values[rival]),
                    note,
                    comparable=comparable,
                )
            )
    return _judged(tests, "fork")


def _shares_note(
    kept: Mapping[str, Trained], variant: str, rival: str, *, must_match: bool = True
) -> tuple[str, bool]:
    """A sentence on the shares of tokens that two variants trained, and whether the two can be
    compared: whether they chose the same number wherever they chose, if that `must_match`."""
    if variant not in kept or rival not in kept:
        return "", True
    first, second = kept[variant], kept[rival]
    note = f" They trained {percent(first.whole)} % and {percent(second.whole)} % of the tokens"
    if first.behind is None and second.behind is None:
        return note + ": the dense warm-up takes every step, so the two are one method.", True
    shares = [each.whole if each.behind is None else each.behind for each in (first, second)]
    if [first.whole, second.whole] != shares:
        note += f", {percent(shares[0])} % and {percent(shares[1])} % behind the dense warm-up"
    if must_match and abs(shares[0] - shares[1]) > SAME * max(shares):
        return note + ": not the same number, so nothing is decided.", False
    return note + ".", True


def _is_larger_share(variant: str, other: str) -> bool:
    """Whether both are ict, at keep=0.1 and at more, with otherwise the same settings."""
    settings, others = settings_of(variant), settings_of(other)
    keep, more = settings.pop("keep", None), others.pop("keep", None)
    alike = method_of(other) == SUBJECT and settings == others and keep == 0.1
    return alike and isinstance(more, int | float) and more > 0.1


def here(task: str) -> str:
    """What a claim about accuracy is judged of: another task or model may show another."""
    return f"on {task} at this size"


def better(task: str, variant: str, rival: str, metric: str) -> str:
    """The name of the claim."""
    return f"{variant} is better than {rival} {here(task)}: {metric}"


def _better(
    scores: Scores,
    task: str,
    variant: str,
    rival: str,
    crashed: Crashed,
    note: str = "",
    *,
    comparable: bool = True,
) -> list[_Test]:
    return [
        _Test(
            better(task, variant, rival, metric),
            f"{variant}'s {metric}",
            rival,
            difference(by_variant[variant], by_variant[rival]),
            note,
            comparable=comparable,
            caveats=caveats(scores, (metric,), (variant, rival), crashed),
        )
        for metric, by_variant in scores.items()
        if paired(by_variant[variant], by_variant[rival])
    ]


def _gain(scores: Scores, task: str, variant: str, rival: str, crashed: Crashed) -> list[_Test]:
    """The gain over `rival` in pass@4 (the largest k where there is none) less that in pass@1."""
    ks = sorted(int(m.removeprefix("pass@")) for m in scores if m.startswith("pass@"))
    if 1 not in ks or len(ks) < 2:
        return []
    metric = "pass@4" if 4 in ks else f"pass@{ks[-1]}"
    first, many = scores["pass@1"], scores[metric]
    if not paired(first[variant], first[rival]):
        return []
    name = "the model before training" if rival == BEFORE else rival
    gains = [difference(passes[variant], passes[rival]) for passes in (many, first)]
    room = [percent(1 - float(np.nanmean(passes[rival]))) for passes in (many, first)]
    return [
        _Test(
            f"{variant} gains more in {metric} than in pass@1 over {name}, {here(task)}",
            f"{variant}'s gain in {metric} over {name}",
            "its gain in pass@1",
            difference(many[variant] - first[variant], many[rival] - first[rival]),
            f" The gains are {points(gains[0].value)} points in {metric} and "
            f"{points(gains[1].value)} in pass@1; {name} left {room[1]} points to gain in pass@1 "
            f"and {room[0]} in {metric}.",
            (metric, gains[0]),
            caveats=caveats(scores, ("pass@1", metric), (variant, rival), crashed),
        )
    ]


def _judged(tests: Sequence[_Test], family: str) -> list[Claim]:
    """The claims of one family, their tests corrected together."""
    differences = [test.difference for test in tests]
    size = sum(each.p is not None for each in differences)
    claims: list[Claim] = []
    for place, (test, result) in enumerate(zip(tests, corrected(differences), strict=True)):
        verdict: Verdict = "undecided"
        if result.differs and test.comparable:
            verdict = "supported" if result.value > 0 else "contradicted"
        sentence = _sentence(test, result, size, family)
        if test.gain:
            metric, gain = test.gain
            gain = corrected([*differences[:place], gain, *differences[place + 1 :]])[place]
            if gain.differs and gain.value < 0:
                verdict, sentence = "contradicted", f"{sentence} So {metric} loses."
            elif verdict == "supported" and not gain.differs:
                verdict = "undecided"
                sentence += f" That in {metric} is itself not told from 0."
        numbers = JudgedDifference(**asdict(result), rival=test.rival, family=family, tests=size)
        claims.append(Claim(test.name, verdict, sentence, numbers, test.caveats))
    return claims


def _sentence(test: _Test, result: PairedDifference, size: int, family: str) -> str:
    side = "above" if result.value >= 0 else "below"
    rival = test.rival if test.rival.startswith("its") else f"{test.rival}'s"
    tested = ""
    if result.p is not None and result.p_holm is not None:
        tested = (
            f" (95 % interval {bounds(result.low, result.high, points)}; p {p_value(result.p)}, "
            f"{p_value(result.p_holm)} after Holm's correction over {counted(size, 'test')} of the "
            f"{family} family)"
        )
    runs = counted(result.seeds, "seed")
    if result.problems > 1:
        runs += f" and {counted(result.problems, 'problem')}"
    outcome = "told from 0" if result.differs else "not told from 0"
    if result.seeds == 1:
        outcome = "one seed cannot tell a method from its luck"
    elif result.p is None:
        outcome = "the same in every one of them, so there is no test"
    elif result.detectable:
        outcome += (
            f"; a difference of {percent(result.detectable)} points would be seen 4 times in 5 "
            "before correction"
        )
    return (
        f"{test.subject} is {percent(abs(result.value))} points {side} {rival}{tested} over "
        f"{runs}: {outcome}.{test.note}"
    )
