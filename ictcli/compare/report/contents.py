"""The report as a document: its title, its lead, and its sections in order."""

from ictcli.compare.comparison import Comparison
from ictcli.compare.numbers import counted, listed, percent
from ictcli.compare.report import accuracy, provenance, tokens, training, verdicts
from ictcli.compare.report.document import Document
from ictcli.compare.report.palette import looks_of
from ictcli.compare.statistics import BEFORE
from ictcli.text import visible


def document(comparison: Comparison) -> Document:
    looks, colours = looks_of(comparison.variants)
    sections = [
        verdicts.verdicts(comparison),
        accuracy.accuracy(comparison, looks),
        accuracy.differences(comparison, looks),
        accuracy.pass_at_k(comparison, looks),
        training.curves(comparison, looks),
        tokens.mechanism(comparison, looks),
        training.cost(comparison, looks),
        training.tuning(comparison, looks),
        provenance.paper(comparison),
        provenance.failed(comparison),
        provenance.limits(comparison),
        accuracy.inference(),
        provenance.made(comparison),
    ]
    methods = list(dict.fromkeys(visible(variant.method) for variant in comparison.variants))
    return Document(
        f"Does it matter which tokens are trained? {listed(methods)} on {visible(comparison.task)}",
        _lead(comparison),
        _facts(comparison),
        sections,
        colours,
    )


def _lead(comparison: Comparison) -> str:
    """The verdicts and what training reached, in a sentence or two."""
    claims = comparison.claims
    if not claims:
        return "No claim of the paper could be judged from these runs."
    judged = [claim.verdict for claim in claims]
    counts = listed([f"{judged.count(v) or 'none'} {v}" for v in verdicts.VERDICTS])
    return (
        f"Of {counted(len(claims), 'claim')} of the paper, {counts} at "
        f"{counted(len(comparison.seeds), 'seed')} and {counted(comparison.problems, 'problem')}."
        f"{_reached(comparison)}"
    )


def _reached(comparison: Comparison) -> str:
    """pass@1 before and after training, where it fits a sentence."""
    estimates = comparison.estimates.get("pass@1", {})
    values = [
        f"{visible(label)} {percent(each.value)}"
        for label, each in estimates.items()
        if label != BEFORE
    ]
    if not 0 < len(values) <= 6 or BEFORE not in estimates:
        return ""
    return f" From {percent(estimates[BEFORE].value)} % pass@1 before training: {listed(values)} %."


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
    return [(name, visible(text)) for name, text in facts if text]
