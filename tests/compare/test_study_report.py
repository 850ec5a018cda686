"""The report over the comparisons of a study, against the reports of each."""

import re
from dataclasses import replace

import pytest
from made_results import result

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import contents, document, study
from ictcli.compare.report.html import page


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """One whose verdicts have caveats, and one of whose runs crashed."""
    found = Comparison.model_validate(result())
    claims = [replace(claim, caveats=("ceiling: pass@4",)) for claim in found.claims]
    held = {metric: {"ict": rows["ict"]} for metric, rows in found.differences.items()}
    return found.model_copy(update={"claims": claims, "differences_without_crashed": held})


def rows_of(section: document.Section) -> list[document.ClaimRow]:
    return [
        row
        for block in section.blocks
        if isinstance(block, document.Claims)
        for row in block.claims
    ]


def test_a_verdict_reads_as_in_the_report_of_its_comparison(comparison: Comparison) -> None:
    """Caveats and marks with it, and the note that says what the marks are."""
    sections = {each.name: each for each in study.document({"a": comparison}, ["a", "b"]).sections}
    shown, alone = rows_of(sections["verdicts"]), rows_of(contents.verdicts(comparison))
    assert shown and shown == alone[: len(shown)]
    assert all("ceiling: pass@4" in row.name for row in shown)
    main = [each for each in comparison.claims if each.test and each.test.family == "main"]
    assert sections["verdicts"].blocks[2:] == contents.resting(main)


def test_runs_that_crashed_are_left_out_beside_the_others(comparison: Comparison) -> None:
    sections = study.document({"a": comparison}, ["a"]).sections
    panels = [
        [panel.title for panel in block.panels]
        for section in sections
        for block in section.blocks
        if isinstance(block, document.Figure)
    ]
    assert panels == [["a", "a, none crashed"]] * 2


def test_a_recipe_of_any_name_has_its_place_on_the_page(comparison: Comparison) -> None:
    name = 'a <img src=x onerror=alert(1)>" |b'
    text = page(study.document({name: comparison}, [name]))
    assert "<img src=x" not in text
    ids = re.findall(r'id="(table-[^"]*)"', text)
    assert ids and all(re.fullmatch(r"[\w.+-]+", each) for each in ids)
