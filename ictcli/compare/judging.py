"""Differences tested together, a family at a time: Holm's correction (Holm 1979), the intervals at
the level at which it tests each, and the verdicts on claims that rest on them.

| verdict | the difference |
|---|---|
| supported | has the paper's sign and is significant after Holm's correction |
| contradicted | is significant and has the other sign |
| equal | is within `statistics.MARGIN` by two one-sided tests after Holm's correction |
| undecided | neither, one seed included |
| not testable | could hardly be there: both are at their ceiling, or both at their floor |
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ictcli.compare import statistics
from ictcli.compare.comparison import FORMS, ByModel, Claim, Family, JudgedDifference, Unit, Verdict
from ictcli.compare.crossed import LEVEL
from ictcli.compare.finished import VariantRuns, name_of
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import Evidence, Extra, PairedDifference, Scores
from ictcli.tables.pages import sentence

K = TypeVar("K")
TEMPLATE = Path(__file__).with_name("claim.jinja")
SAME = 0.1
"""Two shares are the same number if they differ by at most this part of the larger."""


@dataclass(frozen=True)
class ClaimTest:
    """A claim and the data that it is judged by."""

    name: str
    subject: str
    """What is compared: the start of the sentence."""
    rival: str
    evidence: Evidence
    family: Family
    trained: tuple[TrainedTokens, ...] = ()
    """What the two trained, where the claim looks at it."""
    alike: bool = False
    """Whether it decides only of two that trained as many tokens."""
    gain: tuple[str, Evidence] | None = None
    """A metric and the gain in it, which must itself be significant and above 0 for support."""
    note: str = ""
    """Ends the sentence."""
    caveats: tuple[str, ...] = ()
    untestable: str = ""
    """Why it cannot be tested here, if so."""
    unit: Unit = "points"
    sign: int = 1
    """Of the difference that is claimed."""
    unmeasured: int = 0
    """Tests of its question whose data was not kept. They count in its family, so that a verdict
    does not hang on what was."""

    @property
    def chose(self) -> bool:
        """Whether either chose tokens at all: the dense warm-up may take every step."""
        return any(each.share_kept is not None for each in self.trained)

    @property
    def comparable(self) -> bool:
        """Whether the two are what the claim compares; otherwise it is undecided."""
        shares = [each.share_chosen for each in self.trained if self.alike and self.chose]
        return not shares or abs(shares[0] - shares[1]) <= SAME * max(shares)


def judged(tests: Sequence[ClaimTest], level: float = LEVEL) -> list[Claim]:
    """The claims, those of a family corrected together and tested at `level`. A test of one seed
    has no p and counts in its family all the same, as one that was not measured does."""
    claims: dict[int, Claim] = {}
    for family in dict.fromkeys(test.family for test in tests):
        members = {at: test for at, test in enumerate(tests) if test.family == family}
        shown = {at: test.evidence for at, test in members.items() if not test.untestable}
        more = sum(test.unmeasured for test in members.values())
        more += sum(each.p is None for each in shown.values())
        size = sum(each.p is not None for each in shown.values()) + more
        found = corrected(shown, level, more)
        for at, test in members.items():
            gain = None
            if test.gain and at in found:
                gain = corrected({**shown, at: test.gain[1]}, level, more)[at]
            claims[at] = _claim(test, found.get(at) or test.evidence.difference(), size, gain)
    return [claims[at] for at in range(len(tests))]


def _claim(
    test: ClaimTest, result: PairedDifference, size: int, gain: PairedDifference | None = None
) -> Claim:
    loses = gain is not None and gain.differs and gain.value < 0
    verdict: Verdict = "undecided"
    if test.untestable:
        verdict = "not testable"
    elif loses:
        verdict = "contradicted"
    elif result.differs and test.comparable:
        verdict = "supported" if result.value * test.sign > 0 else "contradicted"
        if verdict == "supported" and gain and not gain.differs:
            verdict = "undecided"
    elif result.equal and test.comparable:
        verdict = "equal"
    numbers = JudgedDifference(
        **asdict(result),
        rival=test.rival,
        family=test.family,
        tests=size,
        unit=test.unit,
        gain=gain if loses or (gain and result.differs) else None,
        metric=test.gain[0] if test.gain else "",
    )
    values = {"shown": FORMS[test.unit], "margin": statistics.MARGIN, "usual": LEVEL}
    text = sentence(TEMPLATE, test=test, result=numbers, **values)
    return Claim(test.name, verdict, text, numbers, test.caveats, ours=test.family == "variants")


def differences(
    scores: Scores,
    rivals: str | Mapping[str, str],
    extra: Mapping[str, Mapping[str, float]] = {},
    level: float = LEVEL,
) -> dict[str, dict[str, PairedDifference]]:
    """By metric and variant: its difference from its rival, all of them one family of Holm's. A
    variant that shares no seed with its rival is left out. One rival is that of all variants, but
    of the model before training."""
    if isinstance(rivals, str):
        labels = next(iter(scores.values()))
        rivals = {each: rivals for each in labels if each not in (rivals, statistics.BEFORE)}
    family = {
        (metric, variant): shown
        for metric in scores
        for variant, rival in rivals.items()
        if (shown := statistics.minus(scores, metric, variant, rival, extra))
    }
    found = corrected(family, level)
    return {metric: {v: found[m, v] for m, v in found if m == metric} for metric in scores}


def by_model(
    variants: Sequence[VariantRuns],
    seeds: Sequence[int],
    scores: Scores,
    base: str,
    extra: Extra,
    level: float,
) -> dict[str, ByModel]:
    """Of each base model by itself; empty where all runs start from one."""
    starts = {
        run.spec.seed: name_of(run.spec.recipe.model) for each in variants for run in each.runs
    }
    models = list(dict.fromkeys(starts[seed] for seed in seeds if seed in starts))
    metric, values = next(iter(scores.items()))
    found: dict[str, ByModel] = {}
    for model in models if len(models) > 1 else ():
        rows = [place for place, seed in enumerate(seeds) if starts.get(seed) == model]
        own = {label: cells[rows] for label, cells in values.items()}
        own = {label: cells for label, cells in own.items() if not np.isnan(cells).all()}
        minus = differences({metric: own}, base, extra, level)[metric] if base in own else {}
        found[model] = ByModel(
            seeds=[seeds[place] for place in rows],
            estimates=statistics.estimates(own, metric, extra),
            differences=minus,
        )
    return found


def corrected(
    family: Mapping[K, Evidence], level: float = LEVEL, unmeasured: int = 0
) -> dict[K, PairedDifference]:
    """The differences of a family, tested at `level` after Holm's correction; those without a p
    stay out of it. `unmeasured` tests more belong to the family."""
    found = {key: each.difference() for key, each in family.items()}
    equal = iter(holm([each.p_equal for each in found.values() if each.p_equal is not None]))
    ps = [each.p for each in found.values() if each.p is not None]
    tested = iter(step_down([*ps, *[1.0] * unmeasured]))
    return {
        key: replace(
            shown if shown.p is None else _at_level(shown, family[key], next(tested), level),
            level=level,
            p_equal=None if shown.p_equal is None else next(equal),
        )
        for key, shown in found.items()
    }


def _at_level(
    found: PairedDifference, shown: Evidence, adjusted: float, level: float
) -> PairedDifference:
    own = level * (found.p / adjusted if found.p and adjusted else 1.0)
    low, high = shown.ends(own)[0] or (None, None)
    return replace(
        found,
        p_holm=min(adjusted, 1.0),
        low_holm=low,
        high_holm=high,
        detectable_holm=shown.detectable(own),
    )


def step_down(ps: Sequence[float]) -> list[float]:
    """The i-th smallest of m times m - i + 1, never less than a smaller one's."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted.tolist()


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p (Holm 1979)."""
    return [min(p, 1.0) for p in step_down(ps)]
