"""What the report says in words is so of its result, and that of a study as those it is over."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import finished_run

from ictcli.compare.comparison import Comparison
from ictcli.compare.design import Design, run_specs
from ictcli.compare.report import comparison_page
from ictcli.compare.report.drawing import styles_of
from ictcli.compare.report.study import costs, forests, study_page, units
from ictcli.compare.run_means import probe_of
from ictcli.compare.variants import variants_of
from ictcli.runs.records import StepMetrics
from ictcli.text import markdown_text


def test_the_band_of_the_probe_holds_every_run() -> None:
    r = np.random.default_rng(0).uniform(-1, 1, (3, 4))
    spec = run_specs(Design("chain-compare", (), variants_of(["ict"], []), 1, Path("none")))[0]
    lines = [
        [StepMetrics(step=s, probe_pearson=v, probe_error=v) for s, v in enumerate(one)]
        for one in r.tolist()
    ]
    lines[0][3] = StepMetrics(step=3)  # a step that not every run has probed is left out
    probe = probe_of([finished_run(spec, each) for each in lines])
    assert probe.step == [0, 1, 2] and probe.runs == 3
    for name in ("pearson", "error"):
        assert getattr(probe, name) == pytest.approx(r[:, :3].mean(axis=0))
        assert getattr(probe, f"{name}_low") == r[:, :3].min(axis=0).tolist()
        assert getattr(probe, f"{name}_high") == r[:, :3].max(axis=0).tolist()


MAIN = "ict is better than grpo on chain at this size: pass@1"


def told(found: dict[str, Any]) -> str:
    return comparison_page(Comparison.model_validate(found), "md")


def test_what_is_said_of_learning_rates_and_seeds_is_so(found: dict[str, Any]) -> None:
    untuned = [{**one, "failed": 0, "tuned": None} for one in found["variants"]]
    none = {**found, "variants": untuned, "failed": [], "tuned_key": None}
    text = told(none)
    assert "trained at the same learning rate (0.0002)" in text and "ran with each of them" in text
    assert "The learning rate was not tuned." in text
    for place, one in enumerate(untuned):
        one["lr"] = (1e-4, 2e-4)[place % 2]
    text = told({**none, "swept": ["lr"]})
    assert "Rates were set by hand: 0.0001 and 0.0002" in text
    assert "same learning rate (" not in text and "was swept" not in text
    both = [{**one, "lr": lr} for one in untuned for lr in (1e-4, 2e-4)]
    text = told({**none, "variants": both, "swept": ["lr"]})
    assert "was swept: every method stands here at each of 0.0001 and 0.0002" in text


def test_a_choice_at_the_edge_of_the_grid_is_told(found: dict[str, Any]) -> None:
    chosen = {"ict": "lr=4e-4", "grpo": "lr=4e-4", "stapo": "lr=1e-4", "random": "lr=2e-4"}
    variants = [{**one, "chosen": chosen.get(one["label"])} for one in found["variants"]]
    assert "Chosen at the edge" not in told({**found, "variants": variants})  # where all are alike
    tuned = {f"lr={n}e-4": {"pass@1": n / 10, "pass@4": 0.6} for n in (1, 2, 4)}
    text = told({**found, "variants": [{**one, "tuned": tuned} for one in variants]})
    ends = "ict and grpo (lr=4e-4, the largest of 3); stapo (lr=1e-4, the smallest of 3)."
    assert f"Chosen at the edge of the grid: {ends}" in text
    assert "Not every method finished each: stapo finished 5 of 6" in text
    assert "without the runs that crashed" not in text and "every sample was wrong" not in text


def test_a_verdict_beyond_the_permutation_test_is_marked(found: dict[str, Any]) -> None:
    (claim,) = [one for one in found["claims"] if one["name"] == MAIN]
    for verdict, least, marked in (
        ("supported", 0.0625, True),
        ("supported", 0.03125, False),
        ("undecided", 0.0625, False),
    ):
        numbers = {**claim["numbers"], "p_swap_least": least}
        text = told({**found, "claims": [{**claim, "verdict": verdict, "numbers": numbers}]})
        assert ("\u2020 marks" in text) == ("pass@1 \u2020." in text) == marked


def test_the_lead_says_where_means_are_of_other_seeds_and_where_greedy_answers_differ(
    found: dict[str, Any],
) -> None:
    difference = {**found["differences"]["pass@1"]["ict"], "value": 0.1}
    estimates = found["estimates"]["pass@1"]
    for missing, sign in product(range(3), (1, -1)):  # a seed of no method, of ict, of all
        rows = {label: {**each, "seeds": len(found["seeds"])} for label, each in estimates.items()}
        for label in ((), ("ict",), [label for label in rows if label != "(before)"])[missing]:
            rows[label]["seeds"] -= 1
        text = told(
            {
                **found,
                "claims": [],
                "estimates": {**found["estimates"], "pass@1": rows},
                "differences": {"pass@1": {"ict": difference}},
                "differences_greedy": {"greedy": {"ict": {**difference, "value": 0.5 * sign}}},
            }
        )
        assert ("each over the seeds that it finished." in text) == bool(missing)
        assert ("Greedy it is the other way round: \u221250.0 points." in text) == (sign < 0)


def test_runs_that_crashed_are_compared_without_too(found: dict[str, Any]) -> None:
    text = told({**found, "differences_without_crashed": found["differences"]})
    assert text.count("without the runs that crashed: differences from grpo") == 2


def test_a_verdict_and_a_row_that_disagree_are_told(found: dict[str, Any]) -> None:
    claims = [dict(claim) for claim in found["claims"]]
    (claim,) = [one for one in claims if one["name"] == MAIN]
    claim["numbers"] = {**claim["numbers"], "p_holm": 0.04, "seeds": 5}
    mine = dict(found["differences"]["pass@1"])
    mine["ict"] = {**mine["ict"], "p_holm": 0.06}
    del mine["stapo"]
    differences = {**found["differences"], "pass@1": mine, "pass@4": mine}
    notes = ["stapo is left out: none of its 5 runs finished."]
    text = told({**found, "claims": claims, "differences": differences, "notes": notes})
    tests = claim["numbers"]["tests"]
    assert f"ict, pass@1: p 0.04 over the {tests} tests of its verdict's group, 0.06" in text
    assert "no seed finished both them and grpo: stapo." in text
    assert text.index("stapo is left out") < text.index("| supported |")


# The report over the comparisons of a study, against the reports of each


@pytest.fixture(scope="module")
def comparison(found: dict[str, Any]) -> Comparison:
    """One whose verdicts have caveats, and one of whose runs crashed."""
    claims = [{**claim, "caveats": ["ceiling: pass@4"]} for claim in found["claims"]]
    held = {metric: {"ict": rows["ict"]} for metric, rows in found["differences"].items()}
    changed = {"claims": claims, "differences_without_crashed": held}
    return Comparison.model_validate({**found, **changed})


def test_a_verdict_reads_as_in_the_report_of_its_comparison(comparison: Comparison) -> None:
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
    styles, _ = styles_of(comparison.variants)
    for metric in comparison.estimates:
        charts = forests({"a": comparison}, metric, styles)
        assert [chart.title for chart in charts] == ["a", "a, none crashed"]


def test_costs_are_those_of_each_comparison(comparison: Comparison) -> None:
    results = {"a": comparison, "b": comparison.model_copy(update={"efficiency": None})}
    styles, _ = styles_of(comparison.variants)
    assert comparison.efficiency and units(results) == list(comparison.efficiency.units)
    for unit, spent in comparison.efficiency.units.items():
        table = costs(results, unit, [each.label for each in comparison.variants], styles)
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
