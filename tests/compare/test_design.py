"""Which runs a comparison is made of, and how a setting is chosen before them."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_results import summary

from ictcli.compare.design import Design, RunSpec, run_specs, slug, tuning_specs
from ictcli.compare.time_estimate import RunCosts, estimate_comparison, kind, measure_all
from ictcli.compare.tuning import best_overrides, check_problems, earlier_choice, tuning_scores
from ictcli.compare.variants import Variant, read_grid, stopped_variants, variants_of
from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.passk import Interval
from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.tasks.prepare import heldout, task_of
from ictcli.tasks.split import is_heldout

METHODS = ("ict", "grpo", "random")


def design_of(folder: Path, *sweeps: str, seeds: int = 2) -> Design:
    grids = [read_grid(text, "--sweep") for text in sweeps]
    return Design("chain-compare", ("steps=4",), variants_of(METHODS, grids), seeds, folder)


def test_every_method_has_every_seed_and_nothing_else_differs(tmp_path: Path) -> None:
    runs = run_specs(design_of(tmp_path))
    assert [(m.variant.label, m.seed) for m in runs] == [(m, s) for s in (0, 1) for m in METHODS]
    bare: list[dict[str, Any]] = []
    for run in runs:
        data = run.recipe.model_dump()
        del data["method"], data["seed"]
        bare.append(data)
    assert all(data == bare[0] for data in bare)


def test_a_sweep_varies_only_methods_that_look_at_it(tmp_path: Path) -> None:
    labels = [v.label for v in design_of(tmp_path, "method.keep=0.05,0.2", "lr=1e-4,2e-4").variants]
    assert [one for one in labels if one.startswith("grpo")] == ["grpo lr=1e-4", "grpo lr=2e-4"]
    assert sum(one.startswith("ict") for one in labels) == 4 and "ict keep=0.05 lr=2e-4" in labels
    runs = run_specs(design_of(tmp_path, "method.keep=0.05,0.2"))
    keeps = {m.variant.label: m.recipe.method.get("keep") for m in runs}
    assert keeps == {
        "ict keep=0.05": 0.05,
        "ict keep=0.2": 0.2,
        "grpo": None,
        "random keep=0.05": 0.05,
        "random keep=0.2": 0.2,
    }
    assert len({m.folder for m in runs}) == len(runs)
    warmups = [v.label for v in design_of(tmp_path, "warmup=1,2").variants]
    assert "grpo" in warmups and "random warmup=2" in warmups


def test_controls_choose_as_many_tokens_as_the_recipe_s_method(tmp_path: Path) -> None:
    methods = ("ict", "random", "frequent", "kl", "entropy20", "grpo")
    overrides = ("method.keep=0.05", 'method.scope="batch"', "method.advantage_power=0.1")
    design = Design("chain-compare", overrides, variants_of(methods, []), 1, tmp_path)
    told = {one.variant.method: one.recipe.options().model_dump() for one in run_specs(design)}
    for method in methods[:4]:
        assert (told[method]["keep"], told[method]["scope"]) == (0.05, "batch")
    assert told["entropy20"] == {"keep": 0.2} and "advantage_power" not in told["kl"]
    swept = variants_of(methods, [read_grid("keep=0.1,0.2", "--sweep")])
    with pytest.raises(UserError, match=r"sets method\.keep = 0\.05"):
        run_specs(Design("chain-compare", overrides, swept, 1, tmp_path))


@pytest.mark.parametrize("text", ["lr", "=1", "lr=", "lr=,"])
def test_a_grid_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="KEY=VALUE"):
        read_grid(text, "--sweep")


def test_what_runs_have_in_common_cannot_vary() -> None:
    fixed = ("curriculum", "prompt.shots", "reward.format", "columns.gold", "hub.split", "eval.n")
    for key in (*fixed, "max_tokens", "update.epochs", "sampling.top_p", "group", "method"):
        with pytest.raises(UserError, match=f"--tune cannot vary {key}: "):
            read_grid(f"{key}=1,2", "--tune")
    for text in ("lr=1e-4,0.0001", "method.keep=0.1,0.2,0.10", 'method.scope=batch,"batch"'):
        with pytest.raises(UserError, match="twice, as"):
            read_grid(text, "--sweep")


def test_a_varied_temperature_leaves_the_evaluation_alone(tmp_path: Path) -> None:
    runs = run_specs(design_of(tmp_path, "temperature=0.7,1.3"))
    assert {one.recipe.temperature for one in runs} == {0.7, 1.3}
    assert {one.recipe.eval.temperature for one in runs} == {1.0}
    variants = variants_of(METHODS, [read_grid("temperature=0.7,1.3", "--sweep")])
    own = Design("chain-compare", ("eval.temperature=0.5",), variants, 1, tmp_path)
    assert {one.recipe.eval.temperature for one in run_specs(own)} == {0.5}


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


def test_a_setting_that_no_method_has_is_refused() -> None:
    with pytest.raises(UserError, match=r"None of grpo, dapo looks at method\.keep"):
        variants_of(("grpo", "dapo"), [read_grid("method.keep=0.1", "--sweep")])


def test_no_key_is_varied_twice_and_no_two_runs_share_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="keep is varied twice"):
        design_of(tmp_path, "keep=0.1,0.2", "method.keep=0.3")
    design = design_of(tmp_path)
    alike = (Variant("ict a/b", "ict"), Variant("ict a=-b", "ict"))
    with pytest.raises(UserError, match="go by the name"):
        run_specs(Design(design.source, design.overrides, alike, 1, tmp_path))


def test_a_run_of_another_recipe_is_in_the_way_only_if_it_did_something(tmp_path: Path) -> None:
    folder = run_specs(design_of(tmp_path))[0].folder
    folder.mkdir()
    (folder / "recipe.toml").write_text(to_toml(load_recipe("chain")))
    (folder / "log.txt").write_text("error: The model is not there.")
    assert len(run_specs(design_of(tmp_path))) == 6
    (folder / "eval").mkdir()
    with pytest.raises(UserError, match="another recipe"):
        run_specs(design_of(tmp_path))


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


@pytest.mark.parametrize("problems", [4, 5, 6])
def test_tuning_asks_for_no_more_problems_than_are_held_out(tmp_path: Path, problems: int) -> None:
    asked = (f"question {number}" for number in range(1000))
    held = [one for one in asked if is_heldout(one)][:7]
    rest = [one for one in (f"other {number}" for number in range(40)) if not is_heldout(one)]
    lines = [json.dumps({"prompt": one, "gold": "1"}) for one in (*held, *rest)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    own = f"task={tmp_path / 'own.jsonl'}"

    def tries(problems: int) -> list[RunSpec]:
        design = Design(
            "chain-compare",
            (own, f"eval.problems={problems}"),
            variants_of(METHODS, []),
            2,
            tmp_path,
        )
        return tuning_specs(design, read_grid("lr=1e-4,2e-4", "--tune"))

    found = check_problems(tries(problems))
    assert len(found) == 1 and f"by {7 - problems} problem" in found[0]
    for one in tries(problems):
        assert len(heldout(one.recipe, task_of(one.recipe))) == 7 - problems
    assert check_problems(tries(3)) == []
    with pytest.raises(UserError, match="none is left to tune on") as refused:
        check_problems(tries(problems + 3))
    assert check_problems(tries(int(refused.value.hint.split("=")[1].split()[0]))) == []


def timed(step: float, load: float = 1.0) -> RunCosts:
    return RunCosts(load, step, 10 * step, problem=0.01, model=100, checkpoint=10, rollouts=1)


def test_the_outlook_adds_up_what_is_left_each_run_by_its_own_figure(tmp_path: Path) -> None:
    runs = run_specs(design_of(tmp_path))
    steps = {"ict": 2.0, "grpo": 3.0, "random": 5.0}
    measured = {kind(one.recipe): timed(steps[one.variant.label]) for one in runs}
    assert len(measured) == 3  # seeds are of one kind
    asked = 2 * 512 * 0.01
    alone = {label: 1.0 + 4 * step + asked for label, step in steps.items()}
    whole = estimate_comparison(runs, measured, 1, have=8)
    assert (whole.left, whole.bytes, whole.at_once) == (6, 6 * 111, 1)
    assert whole.seconds == pytest.approx(2 * sum(alone.values()))
    runs[0].folder.mkdir()
    (runs[0].folder / "summary.json").write_text("{}")
    left = estimate_comparison(runs, measured, 1, have=8)
    assert left.left == 5 and left.seconds == pytest.approx(whole.seconds - alone["ict"])
    (runs[1].folder / "checkpoints" / "step-000003").mkdir(parents=True)
    continued = estimate_comparison(runs, measured, 1, have=8)
    assert continued.seconds == pytest.approx(left.seconds - 3 * 3.0 - asked / 2)


def test_finished_runs_are_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timings: list[str] = []

    def measure(recipe: Recipe) -> RunCosts:
        timings.append(recipe.rule.name)
        return timed(1.0)

    monkeypatch.setattr("ictcli.compare.time_estimate.measure", measure)
    runs = run_specs(design_of(tmp_path))
    for spec in runs:
        if spec.variant.label != "grpo":
            spec.folder.mkdir()
            (spec.folder / "summary.json").write_text("{}")
    left = estimate_comparison(runs, measure_all(runs), 1, have=8)
    assert timings == ["grpo"] and left.left == 2
    assert left.seconds == pytest.approx(2 * (1.0 + 4 * 1.0 + 2 * 512 * 0.01))
    for spec in runs:
        spec.folder.mkdir(exist_ok=True)
        (spec.folder / "summary.json").write_text("{}")
    done = estimate_comparison(runs, measure_all(runs), 2, have=8)
    assert timings == ["grpo"] and (done.left, done.seconds, done.bytes) == (0, 0, 0)


@pytest.mark.parametrize(("jobs", "have", "at_once"), [(3, 2, 2), (2, 8, 2), (64, 1, 1)])
def test_no_more_runs_at_once_than_cores(
    tmp_path: Path, jobs: int, have: int, at_once: int
) -> None:
    runs = run_specs(design_of(tmp_path, seeds=4))
    measured = {kind(one.recipe): timed(1.0) for one in runs}
    found = estimate_comparison(runs, measured, jobs, have=have)
    assert found.at_once == at_once
    assert found.seconds == pytest.approx(len(runs) * (1.0 + 4.0 + 10.24) / at_once)
    assert json.loads(found.model_dump_json())["left"] == len(runs)


def test_a_dense_warmup_is_planned_as_dense(tmp_path: Path) -> None:
    design = Design("chain-compare", ("steps=4", "warmup=3"), variants_of(METHODS, []), 1, tmp_path)
    runs = run_specs(design)
    found = estimate_comparison(runs, {kind(one.recipe): timed(1.0) for one in runs}, 1, have=1)
    ict, grpo, _ = (one.seconds for one in found.runs)
    assert ict - grpo == pytest.approx(3 * 9.0)


def test_labels_make_folders() -> None:
    assert slug("ict keep=0.2 lr=1e-4") == "ict-keep0.2-lr1e-4"


def test_the_control_takes_the_steps_of_the_warm_up_as_the_others_do(tmp_path: Path) -> None:
    grids = [read_grid("warmup=1,2", "--sweep"), read_grid("method.keep=0.1,0.2", "--sweep")]
    variants = variants_of(("ict",), grids) + stopped_variants(("ict",), grids)
    overrides = ("steps=4", "optimizer.decay=linear", "optimizer.lr_hold=0")
    runs = run_specs(Design("chain-compare", overrides, variants, 1, tmp_path))
    recipes = {run.variant.label: run.recipe for run in runs}
    for warmup in (1, 2):
        control = recipes[f"stop-after-warmup warmup={warmup}"]
        ict = recipes[f"ict warmup={warmup} keep=0.2"]
        assert control.steps == ict.dense_steps == warmup and control.rule.name == "grpo"
        rates = [control.lr_at(step) for step in range(1, warmup + 1)]
        assert rates == [ict.lr_at(step) for step in range(1, warmup + 1)]
        assert ict.lr_at(4) < rates[0]
    assert len(recipes) == 6


def test_a_control_without_a_warm_up_to_stop_after_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="None of grpo, stapo has a dense warm-up"):
        stopped_variants(("grpo", "stapo"), [])
    for warmup in (0, 4):
        design = Design(
            "chain-compare",
            ("steps=4", f"warmup={warmup}"),
            stopped_variants(("ict",), []),
            1,
            tmp_path,
        )
        with pytest.raises(UserError, match=f"warmup is {warmup} and steps is 4"):
            run_specs(design)


def test_each_warm_up_has_a_control_that_ends_with_it(tmp_path: Path) -> None:
    methods = ("ict", "ict warmup=1 lr=1e-3", "random warmup=1 lr=1e-3", "ict warmup=0", "grpo")
    variants = variants_of(methods, []) + stopped_variants(methods, [])
    runs = run_specs(Design("chain-compare", ("steps=4", "warmup=2"), variants, 1, tmp_path))
    controls = {run.variant.label: run.recipe for run in runs if run.variant.stops}
    assert {label: (each.steps, each.lr) for label, each in controls.items()} == {
        "stop-after-warmup": (2, runs[0].recipe.lr),
        "stop-after-warmup warmup=1 lr=1e-3": (1, 1e-3),
    }
    swept = [read_grid("warmup=0,1", "--sweep")]
    assert [each.label for each in stopped_variants(("ict",), swept)] == [
        "stop-after-warmup warmup=1"
    ]


@pytest.mark.parametrize(
    "twins",
    [("ict", "ict keep=0.1"), ("random scope=batch keep=0.2", "random keep=0.2 scope=batch")],
)
def test_two_variants_that_would_train_the_same_are_refused(
    tmp_path: Path, twins: tuple[str, str]
) -> None:
    """However their settings are written."""
    methods = (twins[0], "grpo", twins[1])
    design = Design("chain-compare", ("method.keep=0.1",), variants_of(methods, []), 2, tmp_path)
    with pytest.raises(UserError, match=f"{twins[0]} and {twins[1]} are the same"):
        run_specs(design)


def test_a_setting_without_a_method_is_refused() -> None:
    for text in ("", " "):
        with pytest.raises(UserError, match="There is no method"):
            variants_of((text,), [])
