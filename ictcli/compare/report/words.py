"""What a report says in words: verdicts, and what its sentences are made of."""

from collections.abc import Sequence

from ictcli.compare.claims import better
from ictcli.compare.comparison import (
    CURVES,
    FORMS,
    Claim,
    Comparison,
    Curve,
    EntropyRatio,
    JudgedDifference,
    PredictionQuality,
)
from ictcli.compare.crossed import LEVEL
from ictcli.compare.statistics import PairedDifference
from ictcli.compare.variants import SUBJECT, numbers_of
from ictcli.tables import Column, Table
from ictcli.tables.numbers import (
    counted,
    factor,
    interval,
    listed,
    p_value,
    percent,
    thousandths,
)

MARK = " \u2020"
"""After the name of a verdict that the permutation test alone could not support."""
FAMILIES = {
    "main": "The paper's main claims: ict against grpo and random tokens, and what it gains",
    "second": "The paper's other comparisons: ict against its other methods and larger shares",
    "fork": "Unique tokens and forks, while training, each method at its own share",
    "entropy": "Entropy at equal accuracy",
    None: "Measured seed by seed, without a p",
    "variants": "Not the paper's: variants of ict and rivals that it does not name",
}
"""The families of `ictcli.compare.claims`, and the claims without a test."""
JUDGED = ("supported", "contradicted", "equal", "undecided", "not testable")


def verdicts(claims: Sequence[Claim], caption: str = "") -> Table:
    columns = [
        Column[Claim]("verdict", lambda claim: claim.verdict, str),
        Column[Claim]("claim", claimed, str),
        Column[Claim]("measured", measured, str),
    ]
    return Table(columns, claims, "verdicts", caption)


def claimed(claim: Claim) -> str:
    """The name of a claim with its mark and its caveats."""
    name = claim.name + MARK * rests_on_normality(claim)
    return f"{name} ({'; '.join(claim.caveats)})" if claim.caveats else name


def rests_on_normality(claim: Claim) -> bool:
    """Whether a verdict was reached that the permutation test of so many seeds never could."""
    decided = claim.verdict in ("supported", "contradicted")
    return decided and claim.test is not None and claim.test.p_swap_least > LEVEL


def measured(claim: Claim) -> str:
    """The number that a claim rests on with its 95 % interval, that after Holm's correction, and
    the gain that decides, if one does."""
    match claim.numbers:
        case JudgedDifference(unit=unit) as test:
            form = FORMS[unit]
            text = f"{form(test.value)} {'points' if unit == 'points' else 'times'} "
            text += interval(test.low, test.high, form)
            if (test.low_holm, test.high_holm) not in ((None, None), (test.low, test.high)):
                text += f", corrected {interval(test.low_holm, test.high_holm, form)}"
            if gain := test.gain:
                ends = interval(gain.low_holm, gain.high_holm, form)
                text += f"; {test.metric} itself {form(gain.value)} {ends}"
        case EntropyRatio(ratio=ratio, low=low, high=high):
            text = f"{factor(ratio)} times the first H1 {interval(low, high, factor)}"
        case PredictionQuality(pearson=(r, low, high)):
            text = f"r {thousandths(r)} {interval(low, high, thousandths)}"
    return text.strip()


def tally(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict, with the names of one or two that were decided; empty
    where none has one."""
    counts: list[str] = []
    for verdict in JUDGED:
        its = [claim for claim in claims if claim.verdict == verdict]
        if its and verdict in ("supported", "contradicted") and len(its) <= 2:
            weak = ", which no exact test of so few seeds shows"
            names = "; ".join(claim.name + weak * rests_on_normality(claim) for claim in its)
            counts.append(f"{len(its)} {verdict} ({names})")
        elif its:
            counts.append(f"{len(its)} {verdict}")
    return listed(counts)


def families(claims: Sequence[Claim]) -> list[Table]:
    """The verdicts by family of tests, with how many tests each is corrected over."""
    shown: list[Table] = []
    for family, about in FAMILIES.items():
        members = [each for each in claims if family == each.family]
        if members:
            tests = max(each.test.tests if each.test else 0 for each in members)
            corrected = f" ({counted(tests, 'test')}, corrected together)" if tests else ""
            shown.append(verdicts(members, about + corrected))
    return shown


def floors(claims: Sequence[Claim]) -> list[str]:
    """The least p of the permutation tests of marked verdicts."""
    tests = [claim.test for claim in claims if rests_on_normality(claim)]
    return [p_value(least) for least in sorted({test.p_swap_least for test in tests if test})]


def subject(comparison: Comparison, metric: str) -> str:
    """The variant whose difference is told first: ict as it is, else one of ict that is no control,
    else the only one there is; empty where there is none of these."""
    rows = comparison.differences.get(metric, {})
    of_ict = [each.label for each in comparison.variants if each.method == SUBJECT]
    ict = sorted((label for label in of_ict if label in rows and "(" not in label), key=len)
    return next(iter(ict or (rows if len(rows) == 1 else ())), "")


def test_of(comparison: Comparison, label: str, metric: str) -> JudgedDifference | None:
    """The test of the claim that a variant is better than the baseline, if there is one."""
    name = better(comparison.task, label, comparison.baseline, metric)
    return next((claim.test for claim in comparison.claims if claim.name == name), None)


def generalised(comparison: Comparison) -> set[str]:
    """What the intervals of estimates are over, and `bound` if some are at 0 or 1."""
    every = [each for rows in comparison.estimates.values() for each in rows.values()]
    at_bound = [each for each in every if each.value in (0, 1) and each.low is not None]
    over = {each.over for each in every if each.seeds == 1 or each not in at_bound}
    return over | ({"bound"} if at_bound else set())


def judged_apart(comparison: Comparison) -> list[tuple[str, JudgedDifference, PairedDifference]]:
    """Differences that a verdict and a row of the tables judge apart, by variant and metric."""
    apart: list[tuple[str, JudgedDifference, PairedDifference]] = []
    for metric, rows in comparison.differences.items():
        for label, row in rows.items():
            test = test_of(comparison, label, metric)
            known = test is not None and test.p_holm is not None and row.p_holm is not None
            if test and known and test.differs != row.differs:
                apart.append((f"{label}, {metric}", test, row))
    return apart


def detectable(comparison: Comparison) -> str:
    """Between which differences those lie that are likely to be missed."""
    tested = [each for each in comparison.tests if each.p is not None and each.seeds > 1]
    if not tested:
        return ""

    def span(name: str) -> str:
        sizes = [1.0 if (size := getattr(each, name)) is None else size for each in tested]
        return " to ".join(dict.fromkeys(map(percent, (min(sizes), max(sizes)))))

    corrected = span("detectable_holm")
    return f"{span('detectable')} points before correction and {corrected} as they are tested"


def curves(comparison: Comparison) -> dict[str, dict[str, Curve]]:
    """Those that were recorded, in the order in which they are drawn."""
    recorded = {
        name: {label: each for label, each in comparison.curves.get(name, {}).items() if each.step}
        for name in CURVES
    }
    return {name: rows for name, rows in recorded.items() if rows}


def has_each_rate(comparison: Comparison) -> bool:
    """Whether every method was trained at each of the rates that any was."""
    pairs = {(each.method, each.lr) for each in comparison.variants}
    methods, rates = map(set, zip(*pairs, strict=True))
    return len(pairs) == len(methods) * len(rates)


def at_edge(comparison: Comparison) -> str:
    """Which methods ended at the smallest or the largest of the values that were tried."""
    ends: dict[str, list[str]] = {}
    for variant in comparison.variants:
        tried, chosen = numbers_of(variant.tuned or {}) or {}, variant.chosen
        if chosen not in tried or len(tried) < 2:
            continue
        order = sorted(tried, key=lambda each: tried[each])
        for end, edge, beside in (("largest", *order[-1:-3:-1]), ("smallest", *order[:2])):
            level = variant.tuned and variant.tuned[edge] == variant.tuned[beside]
            if chosen == edge and not level:
                place = f"{chosen}, the {end} of {len(tried)}"
                ends.setdefault(place, []).append(variant.label)
    return "; ".join(f"{listed(labels)} ({end})" for end, labels in ends.items())
