"""Which runs a comparison is made of."""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from small_runs import METHODS, design_of

from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.plan import CompareOptions, plan_of
from ictcli.compare.tuning import Tuning
from ictcli.compare.variants import Variant, read_grid, read_values, variants_of
from ictcli.errors import UserError
from ictcli.recipe import load_recipe, to_toml


def test_a_sweep_varies_only_methods_that_look_at_it(tmp_path: Path) -> None:
    labels = [v.label for v in design_of(tmp_path, "method.keep=0.05,0.2", "lr=1e-4,2e-4").variants]
    assert [one for one in labels if one.startswith("grpo")] == ["grpo lr=1e-4", "grpo lr=2e-4"]
    assert sum(one.startswith("ict") for one in labels) == 4 and "ict keep=0.05 lr=2e-4" in labels
    runs = run_specs(design_of(tmp_path, "method.keep=0.05,0.2"))
    keeps = {run.folder.name: run.recipe.method.get("keep") for run in runs if run.seed == 0}
    assert keeps == {
        "ict-keep0.05-s0": 0.05,
        "ict-keep0.2-s0": 0.2,
        "grpo-s0": None,
        "random-keep0.05-s0": 0.05,
        "random-keep0.2-s0": 0.2,
    }
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


def test_a_control_is_its_method_s_recipe_but_for_what_it_controls(tmp_path: Path) -> None:
    rewards = read_grid("reward.signal=true,random,format", "--sweep")
    methods = ("grpo", "ict", "ict control=mass")
    variants = variants_of(methods, [rewards])
    runs = run_specs(Design("chain-compare", ("steps=4",), variants, 1, tmp_path))
    assert [run.recipe.label for run in runs] == [each.label for each in variants]
    assert variants[-2].label == "ict (mass, random reward)"
    assert runs[-2].folder.name == "ict-mass-random-reward-s0"
    for run in runs:
        plain = next(r for r in runs if r.recipe.label == run.recipe.rule.name)
        off = run.recipe.reward.model_copy(update={"signal": "true"})
        assert run.recipe.model_copy(update={"control": "none", "reward": off}) == plain.recipe
    with pytest.raises(UserError, match=r"trains a control, ict \(mass\)"):
        plan_of("chain-compare", ("control=mass",), CompareOptions(methods=("ict",)), tmp_path)


FIXED = ("prompt.shots", "reward.format", "columns.gold", "hub.split", "eval.n")
FIXED += ("max_tokens", "update.epochs", "sampling.top_p", "group", "method")
KEEP = read_grid("method.keep=0.1", "--sweep")


def specs_of(variants: tuple[Variant, ...], *overrides: str) -> list[RunSpec]:
    return run_specs(Design("chain-compare", ("steps=4", *overrides), variants, 2, Path("none")))


REFUSED = [
    *((partial(read_grid, text, "--sweep"), "KEY=VALUE") for text in ("lr", "=1", "lr=", "lr=,")),
    *((partial(read_grid, f"{k}=1,2", "--tune"), f"--tune cannot vary {k}: ") for k in FIXED),
    (partial(variants_of, ("grpo", "dapo"), [KEEP]), r"None of grpo, dapo uses method\.keep"),
    *((partial(variants_of, (text,), []), "There is no method") for text in ("", " ")),
    (partial(read_values, " , ", "method", "--methods"), "--methods names no method"),
    (partial(design_of, Path(), "keep=0.1,0.2", "method.keep=0.3"), "keep is varied twice"),
    # runs that would not be their labels
    (partial(specs_of, (Variant("ict a/b", "ict"), Variant("ict a=-b", "ict"))), "would share the"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_cannot_be_varied_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        make()


def test_seeds_start_from_the_models_in_turn_and_all_methods_alike(tmp_path: Path) -> None:
    design = replace(design_of(tmp_path, seeds=5), models=("a", "b/c"))
    final = {(spec.seed, spec.recipe.model) for spec in run_specs(design)}
    first = design.first_seed
    assert final == {(first + s, ("a", "b/c")[s % 2]) for s in range(5)}
    tries = Tuning(design, read_grid("lr=1e-4,2e-4", "--tune"), runs=3).first
    assert len({(spec.seed, spec.recipe.model) for spec in tries}) == 3
    assert {spec.recipe.model for spec in tries} == {"a", "b/c"}


def test_a_comparison_may_be_moved_with_the_folders_of_its_models(tmp_path: Path) -> None:
    before, after = (
        replace(design_of(tmp_path), models=(str(tmp_path / where / "model"),))
        for where in ("before", "after")
    )
    for spec in run_specs(before):
        (spec.folder / "eval").mkdir(parents=True)
        (spec.folder / "recipe.toml").write_text(to_toml(spec.recipe))
    assert {spec.recipe.model for spec in run_specs(after)} == set(after.models)
    with pytest.raises(UserError, match="another recipe"):
        run_specs(replace(design_of(tmp_path), models=("builtin:chain",)))


def notes(*methods: str, folder: Path = Path("none"), **options: Any) -> str:
    plan = plan_of("chain-compare", (), CompareOptions(methods=methods, **options), folder)
    return "; ".join(plan.notes)


def contrasts(*methods: str, **options: Any) -> tuple[str, list[str]]:
    plan = plan_of("chain-compare", (), CompareOptions(methods, **options), Path("none"))
    return plan.baseline, [each.name for each in plan.contrasts]


def test_contrasts_are_those_named_or_each_method_with_the_baseline() -> None:
    methods = ("ict", "ict score=u*h", "random", "grpo")
    own = ["ict:grpo", "ict score=u*h:grpo", "random:grpo"]
    assert contrasts(*methods) == ("grpo", own)
    assert contrasts("ict", "random") == ("ict", ["random:ict"])
    assert contrasts(*methods, baseline="random")[1][0] == "ict:random"
    named = contrasts(*methods, contrast="ict:random, ict score=u*h : ict,ict:random")
    assert named[1] == ["ict:random", "ict score=u*h:ict"]
    swept = ("lr=1e-4,2e-4",)
    for option, words in (
        ({"contrast": "ict"}, "not of the form A:B"),
        ({"contrast": "ict:ict"}, "with itself"),
        ({"contrast": "ict:stapo"}, "'stapo'.* not one of the methods"),
        ({"contrast": "ict:random", "sweep": swept}, "'ict', which fits ict lr=1e-4 and ict"),
        ({"contrast": ","}, "names no pair"),
        ({"baseline": "dapo"}, "--baseline names 'dapo'"),
    ):
        with pytest.raises(UserError, match=words):
            contrasts("ict", "random", "grpo", **option)


def test_a_recipe_needs_no_method_where_methods_are_named(tmp_path: Path) -> None:
    text = to_toml(load_recipe("chain-compare")).replace("[method]", "[methodless]")
    data = tomllib.loads(text)
    del data["methodless"]
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(data))
    plan = plan_of(str(tmp_path / "mine.toml"), (), CompareOptions(("ict", "grpo")), tmp_path)
    assert [run.recipe.rule.name for run in plan.runs[:2]] == ["ict", "grpo"]


def test_a_varied_temperature_leaves_the_evaluation_alone(tmp_path: Path) -> None:
    variants = variants_of(METHODS, [read_grid("temperature=0.7,1.3", "--sweep")])
    for overrides, asked in (((), 1.0), (("eval.temperature=0.5",), 0.5)):
        runs = run_specs(Design("chain-compare", overrides, variants, 1, tmp_path))
        assert {one.recipe.temperature for one in runs} == {0.7, 1.3}
        assert {one.recipe.eval.temperature for one in runs} == {asked}


def test_a_run_of_another_recipe_is_in_the_way_only_if_it_did_something(tmp_path: Path) -> None:
    folder = run_specs(design_of(tmp_path))[0].folder
    folder.mkdir()
    (folder / "recipe.toml").write_text(to_toml(load_recipe("chain")))
    (folder / "log.txt").write_text("error: The model is not there.")
    assert len(run_specs(design_of(tmp_path))) == 6
    (folder / "eval").mkdir()
    with pytest.raises(UserError, match="another recipe"):
        run_specs(design_of(tmp_path))
