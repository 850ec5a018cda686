"""The report over the comparisons of a study, against the reports of each."""

import re
from typing import Any

import pytest

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import comparison_page
from ictcli.compare.report.drawing import looks_of
from ictcli.compare.report.study import costs, forests, study_page, units
from ictcli.text import markdown_text


@pytest.fixture(scope="module")
def comparison(found: dict[str, Any]) -> Comparison:
    """One whose verdicts have caveats, and one of whose runs crashed."""
    claims = [{**claim, "caveats": ["ceiling: pass@4"]} for claim in found["claims"]]
    held = {metric: {"ict": rows["ict"]} for metric, rows in found["differences"].items()}
    changed = {"claims": claims, "differences_without_crashed": held}
    return Comparison.model_validate({**found, **changed})


def test_a_verdict_reads_as_in_the_report_of_its_comparison(comparison: Comparison) -> None:
    """Caveats and marks with it, and the note that says what the marks are."""
    main = [each for each in comparison.claims if each.family == "main"]
    shown = study_page({"a": comparison}, {"a": main}, ["a", "b"], "md").splitlines()
    alone = comparison_page(comparison, "md").splitlines()
    for name in [each.name for each in main]:
        lines = [line for line in alone if markdown_text(name) in line]
        assert lines and all("ceiling: pass@4" in line and line in shown for line in lines)
    marks = [line for line in alone if "marks a verdict" in line]
    assert [line for line in shown if "marks a verdict" in line] == marks
    assert "Without a finished run: b." in shown[2]


def test_runs_that_crashed_are_left_out_beside_the_others(comparison: Comparison) -> None:
    looks, _ = looks_of(comparison.variants)
    for metric in comparison.estimates:
        charts = forests({"a": comparison}, metric, looks)
        assert [chart.title for chart in charts] == ["a", "a, none crashed"]


def test_costs_are_those_of_each_comparison(comparison: Comparison) -> None:
    results = {"a": comparison, "b": comparison.model_copy(update={"efficiency": None})}
    looks, _ = looks_of(comparison.variants)
    assert comparison.efficiency and units(results) == list(comparison.efficiency.units)
    for unit, spent in comparison.efficiency.units.items():
        table = costs(results, unit, [each.label for each in comparison.variants], looks)
        heads = [column.head for column in table.columns]
        assert heads[1:] and all(head.startswith("a ") for head in heads[1:])
        means = {label: each.value for label, each in spent.figures["at budget"].values.items()}
        shown = {row: table.columns[-1].value(row) for row in table.rows}
        assert {row: each.value for row, each in shown.items() if each} == means


def test_a_recipe_of_any_name_has_its_place_on_the_page(comparison: Comparison) -> None:
    name = 'a <img src=x onerror=alert(1)>" |b'
    text = study_page({name: comparison}, {name: comparison.claims}, [name], "html")
    assert "<img src=x" not in text
    ids = re.findall(r'id="(table-[^"]*)"', text)
    assert ids and all(re.fullmatch(r"[\w.+-]+", each) for each in ids)
