"""The verdict on a claim: by its difference, corrected over its family, and the numbers beside it.

| verdict | the difference |
|---|---|
| supported | has the paper's sign and is significant after Holm's correction |
| contradicted | is significant and has the other sign |
| equal | is within `statistics.MARGIN` by two one-sided tests after Holm's correction |
| undecided | neither, one seed included |
| not testable | could hardly be there: both are at their ceiling, or both at their floor |
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ictcli.compare.comparison import FORMS, Claim, Family, JudgedDifference, Unit, Verdict
from ictcli.compare.correction import corrected
from ictcli.compare.crossed import LEVEL
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import MARGIN, Evidence, PairedDifference
from ictcli.tables.pages import sentence

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
    """The claims, those of a family corrected together and tested at `level`."""
    claims: dict[int, Claim] = {}
    for family in dict.fromkeys(test.family for test in tests):
        members = [(at, test) for at, test in enumerate(tests) if test.family == family]
        testable = [each for each in members if not each[1].untestable]
        shown = [test.evidence for _, test in testable]
        more = sum(test.unmeasured for _, test in members)
        size = sum(each.p is not None for each in shown) + more
        found = corrected(shown, level, more)
        for place, ((at, test), result) in enumerate(zip(testable, found, strict=True)):
            gain = None
            if test.gain:
                others = [*shown[:place], test.gain[1], *shown[place + 1 :]]
                gain = corrected(others, level, more)[place]
            claims[at] = _claim(test, result, size, gain)
        claims |= {
            at: _claim(test, test.evidence.difference(), size)
            for at, test in members
            if test.untestable
        }
    return [claims[at] for at in range(len(tests))]


def _claim(
    test: ClaimTest, result: PairedDifference, size: int, gain: PairedDifference | None = None
) -> Claim:
    """One claim by its difference, corrected over `size` tests, and by the `gain` in its metric."""
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
    metric = test.gain[0] if test.gain else ""
    numbers = JudgedDifference(
        **asdict(result),
        rival=test.rival,
        family=test.family,
        tests=size,
        unit=test.unit,
        gain=gain if loses or (gain and result.differs) else None,
        metric=metric,
    )
    values = {"shown": FORMS[test.unit], "margin": MARGIN, "usual": LEVEL}
    text = sentence(TEMPLATE, test=test, result=numbers, **values)
    return Claim(test.name, verdict, text, numbers, test.caveats, ours=test.family == "variants")
