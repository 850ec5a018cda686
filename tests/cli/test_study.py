"""A study: `ictcli compare` on several recipes, and methods with settings of their own."""

import csv
import json
from itertools import product
from pathlib import Path

import pytest
from processes import Processes, refusal

STUDY = """
# Two tasks
recipes = ["chain-compare", "mine.toml"]
methods = ["grpo", "random max_prob=0.99"]
seeds = 1
baseline = "random"
settings = ["model={}", "steps=1", "eval.k=[1,2]",
  "max_tokens=16", "prompts=2", "group=2", "eval.problems=4", "eval.n=2"]
"""
MINE = 'model = "builtin:chain"\ntask = "chain"\nmethod = "ict"\nmax_tokens = 40\n'
METHODS = ["grpo", "random max_prob=0.99"]


@pytest.fixture(scope="module")
def study(ictcli: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that was run."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(STUDY.format(tiny_model))
    (folder / "mine.toml").write_text(MINE)
    ended = ictcli.run("compare", "study.toml", folder=folder)
    assert ended.code == 0, ended.err
    table = ended.out.splitlines()
    assert table[0].split() == ["method", "chain-compare", "mine"]
    assert [line.split("  ")[0] for line in table[1:4]] == ["before training", *METHODS]
    return folder


def test_each_recipe_is_compared_on_the_same_terms_and_each_run_has_a_row(study: Path) -> None:
    place = study / "runs" / "compare-study"
    with (place / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    recipes = ("chain-compare", "mine")
    assert [(row["recipe"], row["method"]) for row in rows] == list(product(recipes, METHODS))
    for row in rows:
        found = json.loads((place / row["recipe"] / "comparison.json").read_text())
        assert [each["label"] for each in found["variants"]] == METHODS
        assert (found["baseline"], found["steps"], found["problems"]) == (METHODS[1], 1, 4)
        mean = found["estimates"]["pass@1"][row["method"]]["value"]
        assert float(row["pass@1"]) == pytest.approx(mean)
    report = (place / "report.md").read_text()
    assert all(f"| {name} |" in report for name in ("before training", "grpo"))


def test_repeated_it_trains_nothing_again_and_what_is_typed_goes_first(
    study: Path, ictcli: Processes
) -> None:
    again = ictcli.run("compare", "study.toml", folder=study)
    assert again.code == 0 and "finished before" in again.err and "step 1/1" not in again.err
    fewer = ictcli.run("compare", "study.toml", "--methods", "grpo", folder=study)
    assert "without random max_prob=0.99" in refusal(fewer, 2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("recipes", "recipe_s"), "there is no key 'recipe_s'"),
        (('"mine.toml"', '"chain-compare"'), "chain-compare twice"),
        (('"grpo"', '"grpo keep=0.1"'), "grpo does not look at keep"),
        (('"grpo"', '"random seed=1"'), "cannot vary seed"),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(tiny_model).replace(*change))
    (tmp_path / "mine.toml").write_text(MINE)
    assert why in refusal(ictcli.run("compare", "study.toml", folder=tmp_path), 2)
    assert not (tmp_path / "runs").exists()
