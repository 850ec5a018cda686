"""The report as a document: its title, its lead, the verdicts, and the other sections in order."""

from collections.abc import Callable, Sequence

from ictcli.compare.claims import (
    SUBJECT,
    Claim,
    EntropyRatio,
    JudgedDifference,
    PredictionQuality,
    here,
)
from ictcli.compare.comparison import Comparison
from ictcli.compare.crossed import LEVEL
from ictcli.compare.numbers import (
    bounds,
    counted,
    hundredths,
    listed,
    p_value,
    percent,
    points,
    sentence,
    thousandths,
)
from ictcli.compare.report import accuracy, attribution, provenance, tokens, training
from ictcli.compare.report import document as doc
from ictcli.compare.report.palette import looks_of
from ictcli.compare.statistics import BEFORE

VERDICTS = ("supported", "contradicted", "undecided")
FAMILIES = {
    "main": "Main family: ict against grpo and random tokens, and what it gains",
    "second": "Second family: ict against the other methods and larger shares",
    "fork": "Fork family: unique tokens and forks, while training, each method at its own share",
    None: "Judged seed by seed against bounds, without a p",
}
"""The families of `ictcli.compare.claims`, and the claims without a test."""
MARK = " \u2020"
"""After the name of a verdict that the permutation test alone could not support."""


def document(comparison: Comparison) -> doc.Document:
    looks, colours = looks_of(comparison.variants)
    sections = [
        accuracy.accuracy(comparison, looks),
        verdicts(comparison),
        accuracy.differences(comparison, looks),
        accuracy.pass_at_k(comparison, looks),
        training.curves(comparison, looks),
        tokens.mechanism(comparison, looks),
        attribution.gradient(comparison, looks),
        training.cost(comparison, looks),
        training.tuning(comparison, looks),
        provenance.paper(comparison),
        provenance.failed(comparison),
        provenance.limits(comparison),
        accuracy.inference(),
        provenance.made(comparison),
    ]
    methods = list(dict.fromkeys(variant.method for variant in comparison.variants))
    return doc.Document(
        f"Does it matter which tokens are trained? {listed(methods)} on {comparison.task}",
        _lead(comparison),
        _facts(comparison),
        sections,
        colours,
    )


def _lead(comparison: Comparison) -> str:
    """The answer: what training reached, ict's difference from the baseline, and the verdicts."""
    sentences = [_reached(comparison), _difference(comparison), _judged(comparison)]
    return " ".join(filter(None, sentences))


def _judged(comparison: Comparison) -> str:
    claims = comparison.claims
    if not claims:
        return "No claim of the paper could be judged from these runs."
    found = [claim.verdict for claim in claims]
    supported, contradicted, undecided = (found.count(verdict) for verdict in VERDICTS)
    left = f"; {undecided} more {'is' if undecided == 1 else 'are'} undecided" if undecided else ""
    return (
        f"Of {counted(len(claims) - undecided, 'claim')} judged at "
        f"{counted(len(comparison.seeds), 'seed')} and {counted(comparison.problems, 'problem')}, "
        f"{supported or 'none'} supported and {contradicted or 'none'} contradicted{left}."
    )


def _reached(comparison: Comparison) -> str:
    """pass@1 before and after training, where it fits a sentence."""
    estimates = comparison.estimates.get("pass@1", {})
    values = [
        f"{label} {percent(each.value)}" for label, each in estimates.items() if label != BEFORE
    ]
    if not 0 < len(values) <= 6 or BEFORE not in estimates:
        return ""
    return f"From {percent(estimates[BEFORE].value)} % pass@1 before training: {listed(values)} %."


def _difference(comparison: Comparison) -> str:
    """The difference of ict from the baseline, where both were run."""
    metric = next(iter(comparison.differences), "")
    row = comparison.differences[metric].get(SUBJECT) if metric else None
    if row is None or row.low is None:
        return ""
    side = "above" if row.value >= 0 else "below"
    told = "told from 0" if row.differs else "not told from 0"
    if row.p is None:
        told = "the same on every problem and seed, so there is no test"
    return (
        f"O{here(comparison.task)[1:]}, {SUBJECT} lies {percent(abs(row.value))} points of "
        f"{metric} {side} {comparison.baseline} (95 % interval "
        f"{bounds(row.low, row.high, points)}): {told}."
    )


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    runs = sum(variant.runs for variant in comparison.variants)
    failed = sum(variant.failed for variant in comparison.variants)
    device = comparison.device
    where = device.get("device_name") or device.get("device")
    facts = [
        ("recipe", comparison.recipe),
        ("task", comparison.task),
        ("model", comparison.model),
        ("runs", f"{runs}" + (f" ({failed} more failed)" if failed else "")),
        ("seeds", str(len(comparison.seeds))),
        ("steps a run", f"{comparison.steps:,}"),
        ("problems", f"{comparison.problems:,}, {counted(comparison.n, 'sample')} each"),
        ("baseline", comparison.baseline),
        ("device", str(where) if where else ""),
    ]
    return [fact for fact in facts if fact[1]]


def verdicts(comparison: Comparison) -> doc.Section:
    claims = comparison.claims
    if not claims:
        none = "No claim is judged: none of the methods it takes was run to its end."
        return doc.Section("verdicts", "Verdicts", [doc.Text(none, "absent")])
    size = comparison.device.get("parameters")
    model = comparison.model + (f" ({size:,} parameters)" if size else "")
    setting = (
        f"All are of {comparison.task} with {model}, {counted(comparison.steps, 'step')} a run, "
        f"{counted(len(comparison.seeds), 'seed')} and {counted(comparison.problems, 'problem')} "
        f"of {counted(comparison.n, 'sample')}: elsewhere they may be others."
    )
    blocks: list[doc.Block] = [doc.Text(setting, "note")]
    meaning = (
        "Supported: the difference has the sign that the paper gives it and is told from 0 at 5 % "
        "after Holm's correction, or every seed is within the bounds named. Contradicted: it is "
        "told, and is the other way. Undecided: neither; that is no evidence that there is no "
        "difference."
    )
    for family, title in FAMILIES.items():
        members = [each for each in claims if family == (each.test and each.test.family)]
        if members:
            blocks += [doc.Text(with_tests(title, members), "family"), rows_of(members)]
    return doc.Section(
        "verdicts", "Verdicts", [*blocks, doc.Text(meaning, "note"), *resting(claims)]
    )


def rows_of(claims: Sequence[Claim]) -> doc.Claims:
    """Verdicts with their caveats, and marked where `resting` has a note."""
    return doc.Claims(
        [
            doc.ClaimRow(claim.verdict, _name(claim), measured(claim), sentence(claim.sentence))
            for claim in claims
        ]
    )


def resting(claims: Sequence[Claim]) -> list[doc.Block]:
    """A note on the marked verdicts, if any is."""
    if floors := sorted({floor for claim in claims if (floor := _rests_on_normality(claim))}):
        least = listed([p_value(floor) for floor in floors])
        marked = (
            f"{MARK.strip()} marks a verdict that rests on the luck of runs being about normal: "
            f"the exact permutation test, which does not, cannot go below p = {least} with so few "
            "seeds, so it alone could support none of those."
        )
        return [doc.Text(marked, "note")]
    return []


def measured(claim: Claim) -> str:
    """The number that a claim rests on, with its 95 % interval."""
    match claim.numbers:
        case JudgedDifference(value=value, low=low, high=high):
            return _with_bounds(f"{points(value)} points", low, high, points)
        case EntropyRatio(ratio=ratio, low=low, high=high):
            return _with_bounds(f"{hundredths(ratio)} times the first H1", low, high, hundredths)
        case PredictionQuality(pearson=(r, low, high)):
            return _with_bounds(f"r {thousandths(r)}", low, high, thousandths)


def _with_bounds(
    text: str, low: float | None, high: float | None, form: Callable[[float], str]
) -> str:
    return text if low is None else f"{text} ({bounds(low, high, form)})"


def _name(claim: Claim) -> str:
    name = claim.name + MARK * bool(_rests_on_normality(claim))
    return f"{name} ({'; '.join(claim.caveats)})" if claim.caveats else name


def _rests_on_normality(claim: Claim) -> float | None:
    """The least p of the permutation test, where a verdict was reached that this test of so many
    seeds never could."""
    if claim.verdict == "undecided" or claim.test is None:
        return None
    return claim.test.p_swap_least if claim.test.p_swap_least > LEVEL else None


def with_tests(title: str, claims: Sequence[Claim]) -> str:
    """The title of a family, with how many tests it is corrected over."""
    test = claims[0].test
    if test is None or not test.tests:
        return title
    return f"{title} ({counted(test.tests, 'test')}, corrected together)"
