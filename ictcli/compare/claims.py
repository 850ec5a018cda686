"""The paper's claims on accuracy and forks as tests; `judging` gives the verdicts.

Source: arXiv 2606.19771; what it leaves open is ours:

- *Better than random tokens of the same number*: against `random` with the same swept settings;
  undecided if the shares that the two trained differ by more than a tenth of the larger.
- *pass@4 gains more than pass@1*: (pass@4 - pass@1) against that of grpo, which the paper's text
  compares, and of the model before training. Supported only if the gain in pass@4 is itself
  significant, by Holm's correction in the place of that difference; a significant loss contradicts
  it. Where most problems are hard, pass@4 gains more by arithmetic; where most are easy, less: the
  sentence names the room that was left, and where pass@1 gained more than all of it, the claim
  could not have held and is not testable.

Holm's correction is by family: `main` holds the tests of ict, as the paper has it, against grpo and
random and those of its gains, `second` those against the other methods of the paper and larger
shares, `fork` those of the forks, `entropy` those of entropy at equal accuracy. `variants` holds
what the paper makes no claim of: settings of ict that are ours, and rivals that it does not name.
What cannot be tested is in none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ictcli.compare.comparison import Family
from ictcli.compare.judging import ClaimTest
from ictcli.compare.notes import CEILING, Crashed, caveats
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import BEFORE, Extra, Scores, evidence, minus, paired, variance
from ictcli.compare.variants import SUBJECT, Variant
from ictcli.tables.numbers import percent, points
from ictcli.types import FloatArray

CONTROL = "random"
RIVALS: dict[str, Family] = {
    "grpo": "main",
    CONTROL: "main",
    "entropy20": "second",
    "stapo": "second",
    SUBJECT: "second",
}
"""The methods that the paper compares ict with, and the family of the tests against each."""


def accuracy_tests(
    scores: Scores,
    task: str,
    variants: Sequence[Variant],
    trained: Mapping[Variant, TrainedTokens] = {},
    crashed: Mapping[str, Sequence[int]] = {},
    extra: Mapping[str, Mapping[str, float]] = {},
) -> list[ClaimTest]:
    """By metric, whether each variant of ict is better than grpo, random tokens and the other
    methods, and what it gains. `variants`: those of the scores. `trained`: the tokens that they
    trained, to compare with random. `crashed`: the runs that did. `extra`: by metric and variant
    the variance that tuning adds, and under `gain` that of pass@4 - pass@1. Pairs that share no
    seed are left out."""
    make = _AccuracyTests(scores, task, crashed, extra)
    tests: list[ClaimTest] = []
    for variant in [each for each in variants if each.method == SUBJECT]:
        for method in dict.fromkeys(each.method for each in variants if each.method != SUBJECT):
            if rival := variant.counterpart(method, variants):
                of_both = trained and method == CONTROL
                pair = (trained[variant], trained[rival]) if of_both else ()
                tests += make.better(variant, rival, pair)
        grpo = variant.counterpart("grpo", variants)
        for rival in [grpo, None] if grpo else [None]:
            tests += make.gain(variant, rival)
        for larger in [each for each in variants if _is_larger_share(variant, each)]:
            tests += make.better(variant, larger)
    return tests


def fork_tests(
    recall: Mapping[Variant, FloatArray], trained: Mapping[Variant, TrainedTokens]
) -> list[ClaimTest]:
    """Whether unique tokens are the forks: each variant of ict, on its own rollouts and at its own
    share, against random tokens and the highest entropy with the same swept settings.

    recall: of the true forks while training, by variant (S, 1), NaN without a run. trained: the
    tokens of those steps."""
    tests: list[ClaimTest] = []
    judged = [each for each in recall if each.method == SUBJECT]
    for variant, method in product(judged, (CONTROL, "entropy20")):
        rival = variant.counterpart(method, recall)
        if rival is None or not paired(recall[variant], recall[rival]):
            continue
        label = variant.label
        tokens = "unique tokens" if label == SUBJECT else f"the unique tokens of {label}"
        mean = percent(float(np.nanmean(recall[variant])))
        tests.append(
            ClaimTest(
                f"{tokens} are forks, more than those of {rival.label}",
                f"{label}'s recall of the true forks while training ({mean} %)",
                rival.label,
                evidence(recall[variant], recall[rival]),
                "fork" if variant.is_paper(rival) else "variants",
                (trained[variant], trained[rival]) if trained else (),
                alike=method == CONTROL,
            )
        )
    return tests


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
    extra: Extra

    def better(
        self, variant: Variant, rival: Variant, trained: tuple[TrainedTokens, ...] = ()
    ) -> list[ClaimTest]:
        """By metric, variant - rival."""
        label, other = variant.label, rival.label
        is_paper = variant.is_paper(rival) and rival.method in RIVALS
        return [
            ClaimTest(
                better(self.task, label, other, metric),
                f"{label}'s {metric}",
                other,
                shown,
                RIVALS[rival.method] if is_paper else "variants",
                trained,
                alike=True,
                caveats=caveats(self.scores, (metric,), (label, other), self.crashed),
                untestable=self.untestable(metric, label, other),
            )
            for metric in self.scores
            if (shown := minus(self.scores, metric, label, other, self.extra))
        ]

    def gain(self, variant: Variant, other: Variant | None) -> list[ClaimTest]:
        """The gain over another (None: the model before training) in pass@4 (the largest k where
        there is none) less that in pass@1; nothing where either metric or the other is missing."""
        rival = other.label if other else BEFORE
        ks = sorted(int(metric.removeprefix("pass@")) for metric in self.scores)
        if 1 not in ks or len(ks) < 2 or rival not in self.scores["pass@1"]:
            return []
        label, metric = variant.label, "pass@4" if 4 in ks else f"pass@{ks[-1]}"
        first, many = self.scores["pass@1"], self.scores[metric]
        gain_1, gain_k = (
            minus(self.scores, each, label, rival, self.extra) for each in ("pass@1", metric)
        )
        if gain_1 is None or gain_k is None:
            return []
        name = "the model before training" if rival == BEFORE else rival
        size_1, size_k = gain_1.inference.mean, gain_k.inference.mean
        room_1, room_k = (1 - float(np.nanmean(each[rival])) for each in (first, many))
        left = f"{name} left {percent(room_k)} points to gain in {metric}"
        short = f"{left}, less than pass@1 gained" if size_1 > room_k else ""
        return [
            ClaimTest(
                f"{label} gains more in {metric} than in pass@1 over {name}, "
                f"on {self.task} at this size",
                f"{label}'s gain in {metric} over {name}",
                "its gain in pass@1",
                evidence(
                    many[label] - first[label],
                    many[rival] - first[rival],
                    variance(self.extra, f"{metric} - pass@1", label, rival),
                ),
                "main" if variant.is_paper(other) else "variants",
                gain=(metric, gain_k),
                note=f"The gains are {points(size_k)} points in {metric} and {points(size_1)} in "
                f"pass@1; {name} left {percent(room_1)} points to gain in pass@1 and "
                f"{percent(room_k)} in {metric}.",
                caveats=caveats(self.scores, ("pass@1", metric), (label, rival), self.crashed),
                untestable=self.untestable(metric, label, rival, alone=True) or short,
            )
        ]

    def untestable(self, metric: str, label: str, rival: str, alone: bool = False) -> str:
        """Why a difference could hardly be there, if so; of a gain, which needs room, where the
        rival `alone` is at its ceiling."""
        own, other = (float(np.nanmean(self.scores[metric][each])) for each in (label, rival))
        if other > CEILING and (alone or own > CEILING):
            return f"{metric} of {rival} is {percent(other)} %, which leaves too little to gain"
        if max(own, other) < 1 - CEILING:
            return f"{metric} of both is under {percent(1 - CEILING)} %"
        return ""
