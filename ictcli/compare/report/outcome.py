"""What was reached: verdicts, pass@k, and the differences from the baseline."""

from __future__ import annotations

from typing import Any

from ictcli.compare.crossed import LEVEL
from ictcli.compare.report import figures
from ictcli.compare.report.document import (
    Block,
    Claims,
    Column,
    Figure,
    Items,
    Section,
    Table,
    Text,
    mapping,
    text_column,
)
from ictcli.compare.report.numbers import (
    counted,
    counts_told,
    interval,
    listed,
    number,
    of,
    p_value,
    percent,
    points,
    sentence,
)
from ictcli.compare.report.palette import Looks, variant
from ictcli.text import visible

VERDICTS = ("supported", "contradicted", "undecided")
FAMILIES = {
    "main": "Main family: ict against grpo and random tokens, and what it gains",
    "second": "Second family: ict against the other methods and larger shares",
    "fork": "Fork family: unique tokens and forks, while training, each method at its own share",
    None: "Judged seed by seed against bounds, without a p",
}
"""The groups of verdicts: the families of `ictcli.compare.claims`, and what has no test."""
MARK = " \u2020"
"""Behind the name of a verdict that the permutation test alone could not support."""
Result = dict[str, Any]


def sizes(result: Result) -> str:
    """From how much a figure is: for captions."""
    runs = [one["runs"] for one in result["variants"]]
    noun = "seed" if max(runs, default=0) == 1 else "seeds"
    of_runs = f"{counted(sum(runs), 'run')} ({counts_told(runs)} {noun} a method)"
    problems, samples = counted(result["problems"], "problem"), counted(result["n"], "sample")
    return f"{of_runs}, {problems}, {samples} each"


def verdicts(result: Result) -> Section:
    claims = result["claims"]
    noted: list[Any] = result.get("notes") or []
    blocks: list[Block] = [Text(visible(str(note)), "absent") for note in noted]
    if not claims:
        none = "No claim is judged: none of the methods it takes was run to its end."
        return Section("verdicts", "Verdicts", [*blocks, Text(none, "absent")])
    meaning = (
        "Supported: the difference has the sign that the paper gives it and is told from 0 at 5 % "
        "after Holm's correction, or every seed is within the bounds named. Contradicted: it is "
        "told, and is the other way. Undecided: neither; that is no evidence that there is no "
        "difference."
    )
    for family, title in FAMILIES.items():
        mine = [c for c in claims if _family(c) == family]
        if mine:
            shown = [
                (c["verdict"], visible(c["name"]) + MARK * _on_law(c), sentence(c["sentence"]))
                for c in mine
            ]
            blocks += [Text(_titled(title, mine), "family"), Claims(shown)]
    blocks.append(Text(meaning, "note"))
    floors = sorted({mapping(c["numbers"])["p_swap_least"] for c in claims if _on_law(c)})
    if floors:
        least = listed([p_value(floor) for floor in floors])
        on_law = (
            f"{MARK.strip()} marks a verdict that rests on the luck of runs being about normal: "
            f"the exact permutation test, which does not, cannot go below p = {least} with so few "
            "seeds, so it alone could support none of those."
        )
        blocks.append(Text(on_law, "note"))
    return Section("verdicts", "Verdicts", blocks)


def _on_law(claim: dict[str, Any]) -> bool:
    """Whether a verdict was reached that the permutation test of so many seeds never could."""
    least = mapping(claim.get("numbers")).get("p_swap_least")
    return claim["verdict"] != "undecided" and least is not None and least > LEVEL


def _family(claim: dict[str, Any]) -> str | None:
    family = mapping(claim.get("numbers")).get("family")
    return family if family in FAMILIES else None


def _titled(title: str, claims: list[dict[str, Any]]) -> str:
    """What a group of verdicts is about, and over how many tests it is corrected."""
    tests = mapping(claims[0].get("numbers")).get("tests")
    if not tests:
        return title
    together = f"{tests} tests corrected together" if tests > 1 else "one test"
    return f"{title} ({together})"


def differences(result: Result, looks: Looks) -> Section:
    title = "Differences from the baseline"
    found: dict[str, Any] = {
        metric: mine for metric, mine in mapping(result["differences"]).items() if mine
    }
    baseline = looks[result["baseline"]].label
    if not found:
        absent = f"Nothing was run beside the baseline, {baseline}."
        if len(result["variants"]) > 1:
            absent = f"No seed finished both the baseline, {baseline}, and another method."
        return Section("differences", title, [Text(absent, "absent")])
    every = [one for mine in found.values() for one in mine.values()]
    family = sum(one["p_holm"] is not None for one in every)
    caption = (
        f"Differences from {baseline} in points, paired by seed and problem, with 95 % intervals; "
        f"a filled mark is told from 0 after Holm's correction over the {family} differences of "
        "this section, a hollow one is not. "
        f"From {sizes(result)}."
    )
    panels = [
        figures.forest(metric, mine, result["baseline"], looks) for metric, mine in found.items()
    ]
    blocks: list[Block] = [Figure("forest", caption, panels)]
    for metric, mine in found.items():
        rows = [
            [
                variant(looks[label]),
                of(one["value"], points),
                interval(one["low"], one["high"], points),
                of(one["p"], p_value),
                of(one["p_holm"], p_value),
                of(one["p_swap"], p_value),
                of(one["p_swap_least"], p_value),
                of(one["detectable"], percent),
                number(one["seeds"]),
            ]
            for label, one in mine.items()
        ]
        corrected = (
            f"p, Holm, is corrected over {counted(family, 'difference')} from {baseline}, not as "
            "the verdicts are"
        )
        corrected = corrected if family else "none shows any luck, so none has an interval or a p"
        caption = (
            f"{metric}: differences from {baseline}, in points; {corrected}. From {sizes(result)}."
        )
        blocks.append(Table(f"differences-{metric}", caption, _columns(metric, family), rows))
    others = "seeds and problems" if any(one["seeds"] > 1 for one in every) else "problems"
    note = (
        f"p is two-sided, of no difference over other {others}; it takes the luck of runs to be "
        f"about normal. p, Holm, is corrected over this section's {counted(family, 'test')}, "
        "every method and k; a verdict only over the claims of the group it stands in, fewer tests "
        "or others, so that its p can be smaller or larger. p by swaps "
        "is an exact permutation test that takes nothing for granted: the two runs of each seed "
        "swap their labels. With so few seeds it cannot go below its floor, whatever the data. "
        "Detectable is the true difference that 4 of 5 comparisons of this size would tell from 0 "
        "at 5 %, before correction: smaller ones are likely to be missed here."
    )
    blocks.append(Text(note, "note"))
    compared = {label for mine in found.values() for label in mine} | {result["baseline"]}
    absent = [one["label"] for one in result["variants"] if one["label"] not in compared]
    if absent:
        names = listed([looks[one].label for one in absent])
        told = f"Left out, since no seed finished both them and {baseline}: {names}."
        blocks.append(Text(told, "absent"))
    if apart := _apart(result, found):
        told = "Told from 0 in a verdict and not in these tables, or the other way:"
        blocks += [Text(told, "note"), Items(apart)]
    return Section("differences", title, blocks)


def _apart(result: Result, found: dict[str, Any]) -> list[str]:
    """The differences that a verdict and a row of the tables judge apart, in a sentence each."""
    judged: list[dict[str, Any]] = result["claims"] or []
    claims = {claim["name"]: mapping(claim.get("numbers")) for claim in judged}
    apart: list[str] = []
    for metric, mine in found.items():
        for label, one in mine.items():
            verdict = claims.get(f"{label} is better than {result['baseline']}: {metric}")
            if not verdict or verdict.get("p_holm") is None or one["p_holm"] is None:
                continue
            if figures.told(verdict) != figures.told(one):
                apart.append(
                    f"{visible(label)}, {metric}: p {p_value(verdict['p_holm'])} over the "
                    f"{verdict['tests']} tests of its verdict's group, {p_value(one['p_holm'])} "
                    "over those of this section. The verdict is of the paper's claim; the table "
                    "asks which of all methods differ from the baseline."
                )
    return apart


def _columns(metric: str, family: int) -> list[Column]:
    return [
        text_column("method"),
        Column("difference", (f"{metric} difference",)),
        Column("95 % interval", ("low", "high")),
        Column("p", ("p",)),
        Column(f"p, Holm over {family}" if family else "p, Holm", ("p_holm",)),
        Column("p by swaps", ("p_swap",)),
        Column("its floor", ("p_swap_least",)),
        Column("detectable", ("detectable",)),
        Column("seeds", ("seeds",)),
    ]


def pass_at_k(result: Result, looks: Looks) -> Section:
    title = "pass@k against k"
    found: dict[str, Any] = {
        label: mine for label, mine in mapping(result["passk"]).items() if mine
    }
    ks = sorted({int(k) for mine in found.values() for k in mine if k.isdigit()})
    if len(ks) < 2:
        absent = "One sample a problem was drawn, so there is no curve of pass@k against k."
        return Section("passk", title, [Text(absent, "absent")])
    caption = f"pass@k against k, the mean over runs and problems. From {sizes(result)}."
    keys = [looks[label].key() for label in found]
    columns = [text_column("method"), *(Column(f"k = {k}", (f"pass@{k}",)) for k in ks)]
    rows = [
        [variant(looks[label]), *(of(mine.get(str(k)), percent) for k in ks)]
        for label, mine in found.items()
    ]
    table = Table(
        "passk", f"pass@k in %, the means drawn above. From {sizes(result)}.", columns, rows
    )
    figure = Figure("passk", caption, [figures.pass_curves(found, looks)], keys)
    return Section("passk", title, [figure, table])
