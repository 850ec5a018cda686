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
from pathlib import Path

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
from ictcli.tables.numbers import percent, points
from ictcli.tables.pages import sentence
from ictcli.types import FloatArray

TEMPLATE = Path(__file__).with_name("claim.jinja")
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
    trained: tuple[TrainedTokens, ...] = ()
    """What the two trained, where the claim looks at it."""
    alike: bool = False
    """Whether it decides only of two that trained as many tokens."""
    gain: tuple[str, PairedDifference] | None = None
    """A metric and the gain in it, which must itself be significant and above 0 for support."""
    note: str = ""
    """Ends the sentence."""
    caveats: tuple[str, ...] = ()

    @property
    def chose(self) -> bool:
        """Whether either chose tokens at all: the dense warm-up may take every step."""
        return any(each.share_kept is not None for each in self.trained)

    @property
    def comparable(self) -> bool:
        """Whether the two are what the claim compares; otherwise it is undecided."""
        shares = [each.share_chosen for each in self.trained if self.alike and self.chose]
        return not shares or abs(shares[0] - shares[1]) <= SAME * max(shares)


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
                pair = _pair(trained, variant, rival) if method == CONTROL else ()
                family = main if method in ("grpo", CONTROL) else second
                family += tests.better(variant.label, rival.label, pair)
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
        mean = percent(float(np.nanmean(recall[variant])))
        tests.append(
            _Test(
                f"{tokens} are forks, more than those of {rival.label}",
                f"{label}'s recall of the true forks while training ({mean} %)",
                rival.label,
                difference(recall[variant], recall[rival]),
                _pair(trained, variant, rival),
                alike=method == CONTROL,
            )
        )
    return _judged(tests, "fork")


def _pair(
    trained: Mapping[Variant, TrainedTokens], variant: Variant, rival: Variant
) -> tuple[TrainedTokens, ...]:
    """What two variants trained; empty if it is not known of both."""
    known = variant in trained and rival in trained
    return (trained[variant], trained[rival]) if known else ()


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
        self, variant: str, rival: str, trained: tuple[TrainedTokens, ...] = ()
    ) -> list[_Test]:
        """By metric, variant - rival."""
        return [
            _Test(
                better(self.task, variant, rival, metric),
                f"{variant}'s {metric}",
                rival,
                difference(by_variant[variant], by_variant[rival]),
                trained,
                alike=True,
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
                gain=(metric, gains[0]),
                note=f"The gains are {points(gains[0].value)} points in {metric} and "
                f"{points(gains[1].value)} in pass@1; {name} left {room[1]} points to gain in "
                f"pass@1 and {room[0]} in {metric}.",
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
        text = sentence(TEMPLATE, test=test, result=result, size=size, family=family)
        if test.gain:
            metric, gain = test.gain
            gain = corrected([*differences[:place], gain, *differences[place + 1 :]])[place]
            if gain.differs and gain.value < 0:
                verdict, text = "contradicted", f"{text} So {metric} loses."
            elif verdict == "supported" and not gain.differs:
                verdict = "undecided"
                text += f" The gain in {metric} is itself not significant."
        numbers = JudgedDifference(**asdict(result), rival=test.rival, family=family, tests=size)
        claims.append(Claim(test.name, verdict, text, numbers, test.caveats))
    return claims
