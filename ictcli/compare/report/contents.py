"""What a report says, in its order; how it looks is `html` and `markdown`."""

from __future__ import annotations

from typing import Any

from ictcli.compare.report import accuracy, inference, outcome, provenance, tokens, training
from ictcli.compare.report.document import Document, mapping
from ictcli.compare.report.numbers import counted, listed, percent
from ictcli.compare.report.palette import looks
from ictcli.compare.statistics import BEFORE
from ictcli.text import visible

Result = dict[str, Any]


def document(result: Result) -> Document:
    """The report of a comparison, from the dict of comparison.json."""
    shown, colours = looks(result["variants"], BEFORE)
    sections = [
        outcome.verdicts(result),
        accuracy.accuracy(result, shown),
        outcome.differences(result, shown),
        outcome.pass_at_k(result, shown),
        training.curves(result, shown),
        tokens.mechanism(result, shown),
        training.cost(result, shown),
        training.tuning(result, shown),
        provenance.paper(result),
        provenance.failed(result),
        provenance.limits(result),
        inference.inference(result),
        provenance.made(result),
    ]
    methods = list(dict.fromkeys(visible(str(one["method"])) for one in result["variants"]))
    return Document(
        f"Does it matter which tokens are trained? {_of(methods)} on {visible(result['task'])}",
        _lead(result),
        _facts(result),
        sections,
        colours,
    )


def _of(methods: list[str]) -> str:
    return f"{methods[0]} alone" if len(methods) == 1 else listed(methods)


def _lead(result: Result) -> str:
    """What was found, in a sentence or two, whatever it is."""
    claims: list[dict[str, Any]] = result["claims"] or []
    if not claims:
        return "No claim of the paper could be judged from these runs."
    counts = {v: sum(c["verdict"] == v for c in claims) for v in outcome.VERDICTS}
    told = listed([f"{count or 'none'} {verdict}" for verdict, count in counts.items()])
    size = f"{counted(len(result['seeds']), 'seed')} and {counted(result['problems'], 'problem')}"
    return f"Of {counted(len(claims), 'claim')} of the paper, {told} at {size}.{_reached(result)}"


def _reached(result: Result) -> str:
    """What training brought, where it fits a sentence."""
    found = mapping(mapping(result["estimates"]).get("pass@1"))
    methods = {label: one for label, one in found.items() if label != BEFORE}
    if not methods or len(methods) > 6 or BEFORE not in found:
        return ""
    told = [f"{visible(label)} {percent(one['value'])}" for label, one in methods.items()]
    return f" From {percent(found[BEFORE]['value'])} % pass@1 before training: {listed(told)} %."


def _facts(result: Result) -> list[tuple[str, str]]:
    runs = sum(one["runs"] for one in result["variants"])
    failed = sum(one["failed"] for one in result["variants"])
    device = mapping(result["device"])
    where = device.get("device_name") or device.get("device")
    facts = [
        ("recipe", str(result["recipe"])),
        ("task", str(result["task"])),
        ("model", str(result["model"])),
        ("runs", f"{runs}" + (f" ({failed} more failed)" if failed else "")),
        ("seeds", str(len(result["seeds"]))),
        ("steps a run", f"{result['steps']:,}"),
        ("problems", f"{result['problems']:,}, {counted(result['n'], 'sample')} each"),
        ("baseline", str(result["baseline"])),
        ("device", str(where) if where else ""),
    ]
    return [(name, visible(text)) for name, text in facts if text]
