"""Which runs share the evaluation before training."""

from pathlib import Path

import pytest

from ictcli.compare.before import FILES, judged_alike, lend
from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.variants import variants_of
from ictcli.recipe import load_recipe
from ictcli.runs import Run, manifest


def two(folder: Path) -> list[RunSpec]:
    """Two runs of one seed, the first evaluated before training."""
    runs = run_specs(Design("chain-compare", (), variants_of(("ict", "grpo"), []), 1, folder))
    for spec in runs:
        with Run.create(spec.folder, spec.recipe):
            pass
    (runs[0].folder / "eval").mkdir()
    for name in FILES:
        (runs[0].folder / name).write_text(name)
    manifest.enter(runs[0].folder, *FILES)
    return runs


def test_what_is_lent_is_whole_and_checked(tmp_path: Path) -> None:
    one, other = two(tmp_path)
    lend(other, [one, other])
    assert [(other.folder / name).read_text() for name in FILES] == list(FILES)
    assert manifest.faults(other.folder, *FILES) == {}
    (other.folder / FILES[0]).write_text("changed")
    assert set(manifest.faults(other.folder, *FILES)) == {FILES[0]}


def test_a_run_s_own_evaluation_stays(tmp_path: Path) -> None:
    one, other = two(tmp_path)
    (other.folder / "eval").mkdir()
    (other.folder / FILES[1]).write_text("its own")
    lend(other, [one, other])
    assert (other.folder / FILES[1]).read_text() == "its own"
    assert not (other.folder / FILES[0]).exists()


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_evaluation_is_not_lent(tmp_path: Path, name: str) -> None:
    one, other = two(tmp_path)
    (one.folder / name).write_text("damaged")
    lend(other, [one, other])
    assert not any((other.folder / name).exists() for name in FILES)


@pytest.mark.parametrize(
    "override",
    [
        *("seed=1", "model=elsewhere", "task=ledger", "eval.problems=7", "eval.n=8", "eval.skip=3"),
        *("eval.temperature=0.5", "max_tokens=9", "reward=math", "prompt.system=Think.", "data=x"),
        *("adapter.kind=lora", "engine.dtype=bfloat16", "sampling.top_p=0.9"),
    ],
)
def test_other_models_problems_or_draws_are_not_alike(override: str) -> None:
    recipe = load_recipe("chain", [])
    assert judged_alike(recipe) != judged_alike(load_recipe("chain", [override]))


@pytest.mark.parametrize("override", ["method=grpo", "lr=1", "keep=0.5", "warmup=1", "steps=3"])
def test_how_it_is_trained_makes_no_difference(override: str) -> None:
    recipe = load_recipe("chain", [])
    assert judged_alike(recipe) == judged_alike(load_recipe("chain", [override]))
