"""Verdicts on claims, as they are read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ictcli.compare.claims import Claim, EntropyRatio, JudgedDifference, PredictionQuality
from ictcli.compare.crossed import LEVEL
from ictcli.tables import Column, Table
from ictcli.tables.numbers import (
    MINUS,
    counted,
    hundredths,
    interval,
    p_value,
    points,
    thousandths,
)
from ictcli.text import visible

MARK = " \u2020"
"""After the name of a verdict that the permutation test alone could not support."""
FAMILIES = {
    "main": "Main family: ict against grpo and random tokens, and what it gains",
    "second": "Second family: ict against the other methods and larger shares",
    "fork": "Fork family: unique tokens and forks, while training, each method at its own share",
    None: "Judged seed by seed against bounds, without a p",
}
"""The families of `ictcli.compare.claims`, and the claims without a test."""


@dataclass(frozen=True)
class Verdict:
    """A claim as it is read."""

    verdict: str
    name: str
    measured: str
    sentence: str


def verdict_of(claim: Claim) -> Verdict:
    name = claim.name + MARK * rests_on_normality(claim)
    if claim.caveats:
        name = f"{name} ({'; '.join(claim.caveats)})"
    sentence = re.sub(r"(?<![^\s(])-(?=\.?\d)", MINUS, visible(claim.sentence))
    return Verdict(claim.verdict, name, measured(claim), sentence)


def rests_on_normality(claim: Claim) -> bool:
    """Whether a verdict was reached that the permutation test of so many seeds never could."""
    decided = claim.verdict != "undecided"
    return decided and claim.test is not None and claim.test.p_swap_least > LEVEL


def measured(claim: Claim) -> str:
    """The number that a claim rests on, with its 95 % interval."""
    match claim.numbers:
        case JudgedDifference(value=value, low=low, high=high):
            text, form = f"{points(value)} points", points
        case EntropyRatio(ratio=ratio, low=low, high=high):
            text, form = f"{hundredths(ratio)} times the first H1", hundredths
        case PredictionQuality(pearson=(r, low, high)):
            text, form = f"r {thousandths(r)}", thousandths
    return f"{text} {interval(low, high, form)}".strip()


def verdict_table(claims: Sequence[Claim], caption: str = "") -> Table:
    columns = [
        Column[Verdict]("verdict", lambda row: row.verdict, str),
        Column[Verdict]("claim", lambda row: row.name, str),
        Column[Verdict]("measured", lambda row: row.measured, str),
    ]
    return Table(columns, list(map(verdict_of, claims)), "verdicts", caption)


def verdict_counts(claims: Sequence[Claim]) -> dict[str, int]:
    found = [claim.verdict for claim in claims]
    return {word: found.count(word) for word in ("supported", "contradicted", "undecided")}


def families(claims: Sequence[Claim], only: Sequence[str | None] = tuple(FAMILIES)) -> list[Table]:
    """The verdicts by family of tests, with how many tests each is corrected over."""
    shown: list[Table] = []
    for family in only:
        members = [each for each in claims if family == (each.test and each.test.family)]
        if members:
            tests = members[0].test.tests if members[0].test else 0
            corrected = f" ({counted(tests, 'test')}, corrected together)" if tests else ""
            shown.append(verdict_table(members, FAMILIES[family] + corrected))
    return shown


def floors(claims: Sequence[Claim]) -> list[str]:
    """The least p of the permutation tests of marked verdicts."""
    tests = [claim.test for claim in claims if rests_on_normality(claim)]
    return [p_value(least) for least in sorted({test.p_swap_least for test in tests if test})]
