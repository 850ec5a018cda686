"""How a setting is chosen before the runs of a comparison."""

import json
from pathlib import Path

import pytest
from designs import METHODS, design_of, timed
from made_results import summary

from ictcli.compare.design import Design, RunSpec, run_specs, tuning_specs
from ictcli.compare.plan import best_overrides, check_problems, earlier_choice, tuning_scores
from ictcli.compare.time_estimate import estimate_comparison, kind
from ictcli.compare.variants import read_grid, variants_of
from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.passk import Interval
from ictcli.recipe import to_toml
from ictcli.tasks.prepare import heldout, task_of
from ictcli.tasks.split import is_heldout


def test_a_folder_of_another_tuning_is_known_before_it_begins(tmp_path: Path) -> None:
    design, grid = design_of(tmp_path), read_grid("lr=1e-4,4e-4", "--tune")
    trained = run_specs(design, dict.fromkeys(METHODS, "lr=4e-4"))[0]
    (trained.folder / "eval").mkdir(parents=True)
    (trained.folder / "recipe.toml").write_text(to_toml(trained.recipe))
    first, *rest = run_specs(design, grid=grid)
    assert (first.recipe, first.chosen, first.untuned) == (trained.recipe, "lr=4e-4", "")
    assert {(one.chosen, one.untuned) for one in rest} == {("", "lr")}
    told = estimate_comparison([first, *rest], {kind(first.recipe): timed(1.0)} | {
        kind(one.recipe): timed(1.0) for one in rest
    }, 1, have=1)  # fmt: skip
    assert [one.lr for one in told.runs] == [4e-4] + [None] * 5
    tries = tuning_specs(design, grid)
    assert earlier_choice(tries, design.variants) is None
    for one in tries:
        one.folder.mkdir(parents=True)
        share = 0.9 if one.trying == "lr=1e-4" else 0.1
        after = {"pass@1": Interval(share, share, share)}
        (one.folder / "summary.json").write_text(
            summary(before=after, after=after).model_dump_json()
        )
    chosen = earlier_choice(tries, design.variants)
    assert chosen == dict.fromkeys(METHODS, "lr=1e-4")
    with pytest.raises(UserError, match="another recipe"):
        run_specs(design, chosen, grid=grid)
    with pytest.raises(UserError, match="than any value of --tune"):
        run_specs(design, grid=read_grid("lr=1e-4,2e-4", "--tune"))


def test_tuning_sees_no_problem_of_the_final_runs(tmp_path: Path) -> None:
    design = design_of(tmp_path)
    tries = tuning_specs(design, read_grid("lr=1e-4,2e-4", "--tune"))
    assert [one.recipe.lr for one in tries] == [1e-4, 2e-4] * 3
    final, trial = run_specs(design)[0].recipe, tries[0].recipe
    asked = [{p.prompt for p in heldout(r, task_of(r))} for r in (final, trial)]
    assert len(asked[0]) == len(asked[1]) == 512 and not asked[0] & asked[1]
    assert {one.seed for one in tries}.isdisjoint({one.seed for one in run_specs(design)})


def test_the_best_value_is_that_of_highest_pass_at_1(tmp_path: Path) -> None:
    design = design_of(tmp_path)
    tries = tuning_specs(design, read_grid("lr=1e-4,2e-4,3e-4", "--tune"))
    values = {"lr=1e-4": 0.2, "lr=2e-4": 0.5, "lr=3e-4": 0.5}
    summaries = {
        one.folder: summary(
            after={"pass@1": Interval(values[one.trying], 0, 1), "pass@4": Interval(0.9, 0, 1)}
        )
        for one in tries
        if (one.variant.label, one.trying) != ("ict", "lr=2e-4")  # a run that failed
    }
    tuned = tuning_scores(tries, summaries)
    chosen = best_overrides(tuned, design.variants)
    assert chosen == {"ict": "lr=3e-4", "grpo": "lr=2e-4", "random": "lr=2e-4"}
    assert [m.recipe.lr for m in run_specs(design, chosen)][:3] == [3e-4, 2e-4, 2e-4]
    left = best_overrides({**tuned, "ict": {}}, design.variants)
    assert left == {"grpo": "lr=2e-4", "random": "lr=2e-4"}
    assert {m.variant.label for m in run_specs(design, left)} == {"grpo", "random"}
    with pytest.raises(RunFailedError, match="Every tuning run failed"):
        best_overrides({label: {} for label in tuned}, design.variants)


def test_tuning_asks_for_no_more_problems_than_are_held_out(tmp_path: Path) -> None:
    asked = (f"question {number}" for number in range(1000))
    held = [one for one in asked if is_heldout(one)][:7]
    rest = [one for one in (f"other {number}" for number in range(40)) if not is_heldout(one)]
    lines = [json.dumps({"prompt": one, "gold": "1"}) for one in (*held, *rest)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))

    def tries(problems: int) -> list[RunSpec]:
        settings = (f"task={tmp_path / 'own.jsonl'}", f"eval.problems={problems}")
        design = Design("chain-compare", settings, variants_of(METHODS, []), 2, tmp_path)
        return tuning_specs(design, read_grid("lr=1e-4,2e-4", "--tune"))

    for problems in (4, 6):
        (note,) = check_problems(tries(problems))
        assert f"by {7 - problems} problem" in note
        for one in tries(problems):
            assert len(heldout(one.recipe, task_of(one.recipe))) == 7 - problems
    assert check_problems(tries(3)) == []
    with pytest.raises(UserError, match="none is left to tune on") as refused:
        check_problems(tries(7))
    assert check_problems(tries(int(refused.value.hint.split("=")[1].split()[0]))) == []
