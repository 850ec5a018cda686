"""Which runs a comparison is made of, and how a setting is chosen before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ictcli.compare.outlook import Measured, look_ahead
from ictcli.compare.plan import Plan, members, read_grid, slug, tuning_members, variants_of
from ictcli.compare.tuning import best, reached
from ictcli.errors import RunFailedError, UserError
from ictcli.step import task_of
from ictcli.summary import heldout

METHODS = ("ict", "grpo", "random")


def plan_of(folder: Path, *sweeps: str, seeds: int = 2) -> Plan:
    grids = [read_grid(text, "--sweep") for text in sweeps]
    return Plan("chain-compare", ("steps=4",), variants_of(METHODS, grids), seeds, folder)


def test_every_method_has_every_seed_and_nothing_else_differs(tmp_path: Path) -> None:
    runs = members(plan_of(tmp_path))
    assert [(m.variant.label, m.seed) for m in runs] == [(m, s) for s in (0, 1) for m in METHODS]
    bare: list[dict[str, Any]] = []
    for run in runs:
        data = run.recipe.model_dump()
        del data["method"], data["seed"]
        bare.append(data)
    assert all(data == bare[0] for data in bare)


def test_a_sweep_varies_only_methods_that_look_at_it(tmp_path: Path) -> None:
    labels = [v.label for v in plan_of(tmp_path, "method.keep=0.05,0.2", "lr=1e-4,2e-4").variants]
    assert [one for one in labels if one.startswith("grpo")] == ["grpo lr=1e-4", "grpo lr=2e-4"]
    assert sum(one.startswith("ict") for one in labels) == 4 and "ict keep=0.05 lr=2e-4" in labels
    runs = members(plan_of(tmp_path, "method.keep=0.05,0.2"))
    keeps = {m.variant.label: m.recipe.method.get("keep") for m in runs}
    assert keeps == {
        "ict keep=0.05": 0.05,
        "ict keep=0.2": 0.2,
        "grpo": None,
        "random keep=0.05": 0.05,
        "random keep=0.2": 0.2,
    }
    assert len({m.folder for m in runs}) == len(runs)
    warmups = [v.label for v in plan_of(tmp_path, "warmup=1,2").variants]
    assert "grpo" in warmups and "random warmup=2" in warmups


@pytest.mark.parametrize("text", ["lr", "=1", "lr=", "lr=,"])
def test_a_grid_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="KEY=VALUE"):
        read_grid(text, "--sweep")


def test_a_setting_that_no_method_has_is_refused() -> None:
    with pytest.raises(UserError, match=r"None of grpo, dapo looks at method\.keep"):
        variants_of(("grpo", "dapo"), [read_grid("method.keep=0.1", "--sweep")])


def test_tuning_sees_no_problem_of_the_final_runs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    tries = tuning_members(plan, read_grid("lr=1e-4,2e-4", "--tune"))
    assert [one.recipe.lr for one, _ in tries] == [1e-4, 2e-4] * 3
    final, trial = members(plan)[0].recipe, tries[0][0].recipe
    asked = [{p.prompt for p in heldout(r, task_of(r))} for r in (final, trial)]
    assert len(asked[0]) == len(asked[1]) == 512 and not asked[0] & asked[1]
    assert {one.seed for one, _ in tries}.isdisjoint({one.seed for one in members(plan)})


def test_the_best_value_is_that_of_highest_pass_at_1(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    tries = tuning_members(plan, read_grid("lr=1e-4,2e-4,3e-4", "--tune"))
    values = {"lr=1e-4": 0.2, "lr=2e-4": 0.5, "lr=3e-4": 0.5}
    summaries = {
        one.folder: {"after": {"pass@1": {"value": values[key]}, "pass@4": {"value": 0.9}}}
        for one, key in tries
        if (one.variant.label, key) != ("ict", "lr=2e-4")  # a run that failed
    }
    tuned = reached(tries, summaries)
    chosen = best(tuned, plan.variants)
    assert chosen == {"ict": "lr=3e-4", "grpo": "lr=2e-4", "random": "lr=2e-4"}
    assert [m.recipe.lr for m in members(plan, chosen)][:3] == [3e-4, 2e-4, 2e-4]
    with pytest.raises(RunFailedError, match="Every tuning run of ict failed"):
        best({**tuned, "ict": {}}, plan.variants)


def test_the_outlook_adds_up_what_is_left(tmp_path: Path) -> None:
    runs = members(plan_of(tmp_path))
    measured = Measured(load=1.0, step=2.0, problem=0.01, model=100, checkpoint=10, rollouts=1)
    one = 1.0 + 4 * 2.0 + 2 * 512 * 0.01
    whole = look_ahead(runs, measured, 1)
    assert (whole.runs, whole.bytes) == (6, 6 * 110)
    assert whole.seconds == pytest.approx(6 * one)
    runs[0].folder.mkdir()
    (runs[0].folder / "summary.json").write_text("{}")
    left = look_ahead(runs, measured, 2)
    assert left.runs == 5 and left.seconds == pytest.approx(5 * one / 2)


def test_labels_make_folders() -> None:
    assert slug("ict keep=0.2 lr=1e-4") == "ict-keep0.2-lr1e-4"
