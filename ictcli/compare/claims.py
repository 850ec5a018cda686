"""The paper's claims, each with a verdict at this size and the numbers that it rests on.

`supported`: the difference has the paper's sign and is significant at 5 % after Holm's correction.
`contradicted`: it is significant and has the other sign. `undecided`: everything else, one seed
included; it is no evidence of equality. Source: arXiv 2606.19771; what it leaves open is ours:

- *Better than random tokens of the same number*: against `random` with the same swept settings;
  undecided if the shares that the two trained differ by more than a tenth of the larger.
- *pass@4 gains more than pass@1*: (pass@4 - pass@1) against that of grpo, which the paper's text
  compares, and of the model before training. Supported only if the gain in pass@4 is itself
  significant, by Holm's correction in the place of that difference; a significant loss contradicts
  it. Where most problems are hard, pass@4 gains more by arithmetic; where most are easy, less: the
  sentence names the room that was left.

Holm's correction is by family: `main` holds the tests against grpo and random and those of the
gains, `second` those against other methods and larger shares, `fork` those of the forks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from ictcli.compare.comparison import Claim, JudgedDifference, Verdict
from ictcli.compare.notes import Crashed, caveats
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import (
    BEFORE,
    PairedDifference,
    Scores,
    corrected,
    difference,
    paired,
)
from ictcli.compare.variants import SUBJECT, Variant
from ictcli.tables.numbers import counted, interval, p_value, percent, points
from ictcli.types import FloatArray

CONTROL = "random"
SAME = 0.1
"""Two shares are the same number if they differ by at most this part of the larger."""


@dataclass(frozen=True)
class _Test:
    name: str
    subject: str
    """What is compared: the start of the sentence."""
    rival: str
    difference: PairedDifference
    note: str = ""
    gain: tuple[str, PairedDifference] | None = None
    """A metric and the gain in it, which must itself be significant and above 0 for support."""
    comparable: bool = True
    """Whether the two are what the claim compares; otherwise it is undecided."""
    caveats: tuple[str, ...] = ()


def accuracy_claims(
    scores: Scores,
    task: str,
    variants: Sequence[Variant],
    trained: Mapping[Variant, TrainedTokens] = {},
    crashed: Mapping[str, Sequence[int]] = {},
) -> list[Claim]:
    """By metric, whether each variant of ict is better than grpo, random tokens and the other
    methods, and what it gains. `variants`: those of the scores. `trained`: the tokens
    that they trained, to compare with random. `crashed`: the runs that did. Pairs that share no
    seed are left out."""
    tests = _AccuracyTests(scores, task, crashed)
    main: list[_Test] = []
    second: list[_Test] = []
    for variant in [each for each in variants if each.method == SUBJECT]:
        for method in dict.fromkeys(each.method for each in variants if each.method != SUBJECT):
            if rival := variant.counterpart(method, variants):
                shares = _shares_note(trained if method == CONTROL else {}, variant, rival)
                family = main if method in ("grpo", CONTROL) else second
                family += tests.better(variant.label, rival.label, *shares)
        if grpo := variant.counterpart("grpo", variants):
            main += tests.gain(variant.label, grpo.label)
        main += tests.gain(variant.label, BEFORE)
        for larger in [each for each in variants if _is_larger_share(variant, each)]:
            second += tests.better(variant.label, larger.label)
    return [*_judged(main, "main"), *_judged(second, "second")]


def fork_claims(
    recall: Mapping[Variant, FloatArray], trained: Mapping[Variant, TrainedTokens] = {}
) -> list[Claim]:
    """Whether unique tokens are the forks: each variant of ict, on its own rollouts and at its own
    share, against random tokens and the highest entropy with the same swept settings.

    recall: of the true forks while training, by variant (S, 1), NaN without a run. trained: the
    tokens of those steps."""
    tests: list[_Test] = []
    judged = [each for each in recall if each.method == SUBJECT]
    for variant, method in product(judged, (CONTROL, "entropy20")):
        rival = variant.counterpart(method, recall)
        if rival is None or not paired(recall[variant], recall[rival]):
            continue
        label = variant.label
        tokens = "unique tokens" if label == SUBJECT else f"the unique tokens of {label}"
        note, comparable = _shares_note(trained, variant, rival, must_match=method == CONTROL)
        mean = percent(float(np.nanmean(recall[variant])))
        tests.append(
            _Test(
                f"{tokens} are forks, more than those of {rival.label}",
                f"{label}'s recall of the true forks while training ({mean} %)",
                rival.label,
                difference(recall[variant], recall[rival]),
                note,
                comparable=comparable,
            )
        )
    return _judged(tests, "fork")


def _shares_note(
    trained: Mapping[Variant, TrainedTokens],
    variant: Variant,
    rival: Variant,
    *,
    must_match: bool = True,
) -> tuple[str, bool]:
    """A sentence on the shares of tokens that two variants trained, and whether the two can be
    compared: whether they chose the same number wherever they chose, if that `must_match`."""
    if variant not in trained or rival not in trained:
        return "", True
    pair = trained[variant], trained[rival]
    whole = [each.tokens_kept_share for each in pair]
    note = f" They trained {percent(whole[0])} % and {percent(whole[1])} % of the tokens"
    if all(each.share_kept is None for each in pair):
        return note + ": the dense warm-up takes every step, so the two are one method.", True
    chosen = [each.share_chosen for each in pair]
    if whole != chosen:
        note += f", {percent(chosen[0])} % and {percent(chosen[1])} % after the dense warm-up"
    if must_match and abs(chosen[0] - chosen[1]) > SAME * max(chosen):
        return note + ": not the same number, so nothing is decided.", False
    return note + ".", True


def _is_larger_share(variant: Variant, other: Variant) -> bool:
    """Whether both are ict, at keep=0.1 and at more, with otherwise the same settings."""
    settings, others = variant.settings, other.settings
    keep, more = settings.pop("keep", None), others.pop("keep", None)
    alike = other.method == SUBJECT and settings == others and keep == 0.1
    return alike and isinstance(more, int | float) and more > 0.1


def better(task: str, variant: str, rival: str, metric: str) -> str:
    """The name of the claim, with what it is judged of: another task or model may show another."""
    return f"{variant} is better than {rival} on {task} at this size: {metric}"


@dataclass(frozen=True)
class _AccuracyTests:
    scores: Scores
    task: str
    crashed: Crashed

    def better(
        self, variant: str, rival: str, note: str = "", comparable: bool = True
    ) -> list[_Test]:
        """By metric, variant - rival."""
        return [
            _Test(
                better(self.task, variant, rival, metric),
                f"{variant}'s {metric}",
                rival,
                difference(by_variant[variant], by_variant[rival]),
                note,
                comparable=comparable,
                caveats=caveats(self.scores, (metric,), (variant, rival), self.crashed),
            )
            for metric, by_variant in self.scores.items()
            if paired(by_variant[variant], by_variant[rival])
        ]

    def gain(self, variant: str, rival: str) -> list[_Test]:
        """The gain over `rival` in pass@4 (the largest k where there is none) less that in
        pass@1; nothing where either metric or the rival is missing."""
        ks = sorted(int(metric.removeprefix("pass@")) for metric in self.scores)
        if 1 not in ks or len(ks) < 2 or rival not in self.scores["pass@1"]:
            return []
        metric = "pass@4" if 4 in ks else f"pass@{ks[-1]}"
        first, many = self.scores["pass@1"], self.scores[metric]
        if not paired(first[variant], first[rival]):
            return []
        name = "the model before training" if rival == BEFORE else rival
        gains = [difference(passes[variant], passes[rival]) for passes in (many, first)]
        room = [percent(1 - float(np.nanmean(passes[rival]))) for passes in (many, first)]
        return [
            _Test(
                f"{variant} gains more in {metric} than in pass@1 over {name}, "
                f"on {self.task} at this size",
                f"{variant}'s gain in {metric} over {name}",
                "its gain in pass@1",
                difference(many[variant] - first[variant], many[rival] - first[rival]),
                f" The gains are {points(gains[0].value)} points in {metric} and "
                f"{points(gains[1].value)} in pass@1; {name} left {room[1]} points to gain in "
                f"pass@1 and {room[0]} in {metric}.",
                (metric, gains[0]),
                caveats=caveats(self.scores, ("pass@1", metric), (variant, rival), self.crashed),
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
                sentence += f" The gain in {metric} is itself not significant."
        numbers = JudgedDifference(**asdict(result), rival=test.rival, family=family, tests=size)
        claims.append(Claim(test.name, verdict, sentence, numbers, test.caveats))
    return claims


def _sentence(test: _Test, result: PairedDifference, size: int, family: str) -> str:
    side = "above" if result.value >= 0 else "below"
    rival = test.rival if test.rival.startswith("its") else f"{test.rival}'s"
    tested = ""
    if result.p is not None and result.p_holm is not None:
        tested = (
            f" (95 % interval {interval(result.low, result.high, points)}; p {p_value(result.p)}, "
            f"{p_value(result.p_holm)} after Holm's correction over {counted(size, 'test')} of the "
            f"{family} family)"
        )
    runs = counted(result.seeds, "seed")
    if result.problems > 1:
        runs += f" and {counted(result.problems, 'problem')}"
    if result.seeds == 1:
        outcome = "one seed cannot tell a method from chance"
    elif result.p is None:
        outcome = "the same in every one of them, so there is no test"
    else:
        outcome = "significant" if result.differs else "not significant"
        if result.detectable:
            outcome += (
                f"; a difference of {percent(result.detectable)} points would be seen 4 times in 5 "
                "before correction"
            )
    return (
        f"{test.subject} is {percent(abs(result.value))} points {side} {rival}{tested} over "
        f"{runs}: {outcome}.{test.note}"
    )
