"""Which runs a comparison is made of."""

from pathlib import Path
from typing import Any

import pytest
from designs import METHODS, design_of

from ictcli.compare.design import Design, run_specs, slug
from ictcli.compare.variants import Variant, read_grid, stopped_variants, variants_of
from ictcli.errors import UserError
from ictcli.recipe import load_recipe, to_toml


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
