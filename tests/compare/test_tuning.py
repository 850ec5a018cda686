"""How a setting is chosen before the runs of a comparison."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_results import summary
from small_runs import METHODS, design_of, timed
from written import write

from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.launch import Summaries
from ictcli.compare.plan import check_problems
from ictcli.compare.time_estimate import estimate_comparison, kind
from ictcli.compare.tuning import Tuning, best_of, chosen_of, means_of, next_values
from ictcli.compare.variants import Grid, read_grid, variants_of
from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.passk import Interval
from ictcli.recipe import to_toml
from ictcli.runs.records import Summary
from ictcli.tasks.prepare import heldout, task_of
from ictcli.tasks.split import is_heldout


def test_a_folder_of_another_tuning_is_refused_once_a_value_is_chosen(tmp_path: Path) -> None:
    design = design_of(tmp_path)
    trained = run_specs(design, dict.fromkeys(METHODS, "lr=4e-4"))[0]
    (trained.folder / "eval").mkdir(parents=True)
    (trained.folder / "recipe.toml").write_text(to_toml(trained.recipe))
    specs = run_specs(design, untuned="lr")
    assert {(spec.chosen, spec.untuned) for spec in specs} == {("", "lr")}
    measured = {kind(spec.recipe): timed(1.0) for spec in specs}
    estimate = estimate_comparison(specs, measured, 1, cores=1)
    assert [run.lr for run in estimate.runs] == [None] * 6
    with pytest.raises(UserError, match="another recipe"):
        run_specs(design, dict.fromkeys(METHODS, "lr=2e-4"))


def test_a_value_beyond_the_grid_is_chosen_where_another_failed(tmp_path: Path) -> None:
    def train(specs: Sequence[RunSpec]) -> Summaries:
        rates = {spec.folder: spec.recipe.lr for spec in specs if spec.recipe.lr < 1e-3}
        return {folder: reached(0.5 + 500 * lr) for folder, lr in rates.items()}

    def reached(share: float) -> Summary:
        after = {"pass@1": Interval(share, share, share)}
        return summary(before=after, after=after)

    grid = read_grid("lr=1e-4,2e-4,4e-4", "--tune")
    tuned = Tuning(design_of(tmp_path), grid).tune(train)
    assert chosen_of(tuned) == dict.fromkeys(METHODS, "lr=0.0008")


def test_tuning_sees_no_problem_of_the_final_runs(tmp_path: Path) -> None:
    design = design_of(tmp_path)
    tries = Tuning(design, read_grid("lr=1e-4,2e-4", "--tune")).first
    assert [one.recipe.lr for one in tries] == [1e-4, 2e-4] * 9
    assert len({one.folder for one in tries}) == 18
    final, trial = run_specs(design)[0].recipe, tries[0].recipe
    asked = [{p.prompt for p in heldout(r, task_of(r))} for r in (final, trial)]
    assert len(asked[0]) == len(asked[1]) == 512 and not asked[0] & asked[1]
    assert {one.seed for one in tries}.isdisjoint({one.seed for one in run_specs(design)})


LR = Grid("lr", ("1e-4", "2e-4", "4e-4"))


def tuned(grid: Grid, reached: Callable[[float, int], float | None], runs: int = 3):
    """What tuning tries where a run of a value reaches so much; None: it fails."""
    tries: dict[str, list[dict[str, float] | None]] = {}
    while wanted := next_values(tries, grid):
        for override in wanted:
            shares = [reached(float(override.partition("=")[2]), n) for n in range(runs)]
            tries[override] = [s if s is None else {"pass@1": s, "pass@4": 0.9} for s in shares]
    return tries


def test_the_grid_does_not_go_on_where_nothing_changes() -> None:
    """As at rates too small to train anything: each run ends as it began, by its seed alone."""
    assert [*tuned(LR, lambda lr, number: 0.4 + number / 10)] == LR.overrides
    falling = tuned(LR, lambda lr, number: max(0.2, 0.5 - 1000 * lr))
    assert min(float(each.partition("=")[2]) for each in falling) < 1e-4


@settings(max_examples=15, deadline=None)
@given(st.floats(-1, 4), st.integers(0, 999))
def test_the_grid_goes_on_until_the_best_is_inside(best: float, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def reached(lr: float, number: int) -> float:
        return 0.7 - 0.05 * (np.log2(lr / 1e-4) - best) ** 2 + rng.normal(0, 0.01)

    tries = tuned(LR, reached)
    values = sorted(float(override.partition("=")[2]) for override in tries)
    chosen = float((best_of(tries) or "").partition("=")[2])
    assert values[0] < chosen < values[-1]
    np.testing.assert_allclose(np.diff(np.log2(values)), 1)
    assert abs(np.log2(chosen / 1e-4) - best) < 1


def test_runs_that_fail_and_values_without_order_have_their_place() -> None:
    tries = tuned(LR, lambda lr, number: None if lr == 2e-4 or number == 1 else 0.5 - lr)
    assert best_of(tries) and means_of(tries).keys().isdisjoint(["lr=2e-4"])
    nothing = tuned(LR, lambda lr, number: None)
    assert best_of(nothing) is None and list(nothing) == LR.overrides
    scores = Grid("score", ("u", "u*h"))
    tries = {
        each: [{"pass@1": share}] for each, share in zip(scores.overrides, (0.4, 0.6), strict=True)
    }
    assert next_values(tries, scores) == []
    assert best_of(tries) == "score=u*h"
    kl = Grid("kl", ("0", "0.001", "0.01"))
    tries = dict(zip(kl.overrides, ([None], [{"pass@1": 0.4}], [{"pass@1": 0.6}]), strict=True))
    assert next_values(tries, kl) == ["kl=0.1"]


def test_a_variant_of_which_no_run_finished_is_left_out() -> None:
    half = {each: [{"pass@1": 0.5 - i / 5}] for i, each in enumerate(LR.overrides)}
    assert chosen_of({"ict": {}, "grpo": half}) == {"grpo": "lr=1e-4"}
    with pytest.raises(RunFailedError, match="Every tuning run failed"):
        chosen_of({"ict": {"lr=1e-4": [None]}})


def test_tuning_asks_for_no_more_problems_than_are_held_out(tmp_path: Path) -> None:
    asked = [f"question {number}" for number in range(300)]
    held = [one for one in asked if is_heldout(one)][:7]
    rest = [one for one in asked if not is_heldout(one)][:40]
    own = write(tmp_path, [{"prompt": one, "gold": "1"} for one in (*held, *rest)])

    def tries(problems: int) -> list[RunSpec]:
        settings = (f"task={own}", f"eval.problems={problems}")
        design = Design("chain-compare", settings, variants_of(["ict"], []), 2, tmp_path)
        return Tuning(design, read_grid("lr=1e-4,2e-4", "--tune"), runs=1).first

    for problems in (4, 6):
        (note,) = check_problems(tries(problems))
        assert f"on {7 - problems} problem" in note
        for one in tries(problems):
            assert len(heldout(one.recipe, task_of(one.recipe))) == 7 - problems
    assert check_problems(tries(3)) == []
    with pytest.raises(UserError, match="none is left to tune on") as refused:
        check_problems(tries(7))
    assert check_problems(tries(int(refused.value.hint.split("=")[1].split()[0]))) == []
