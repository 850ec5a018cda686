"""A study: `ictcli compare` on several recipes, and methods with settings of their own."""

import csv
import json
from itertools import product
from pathlib import Path

import pytest
from processes import Processes

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
def study(processes: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that was run."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(STUDY.format(tiny_model))
    (folder / "mine.toml").write_text(MINE)
    ended = processes.done("compare", "study.toml", folder=folder)
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


def test_repeated_it_trains_nothing_again(study: Path, ictcli: Processes) -> None:
    again = ictcli.done("compare", "study.toml", folder=study)
    assert "finished before" in again.err and "step 1/1" not in again.err
    told = ictcli.refused("compare", "study.toml", "--methods", "grpo", folder=study)
    assert "without random max_prob=0.99" in told


def test_a_study_that_cannot_be_is_refused(ictcli: Processes, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    for right, wrong, why in (
        ("recipes", "recipe_s", "there is no key 'recipe_s'"),
        ('"mine.toml"', '"chain-compare"', "chain-compare twice"),
        ('"grpo"', '"grpo keep=0.1"', "grpo does not look at keep"),
        ('"grpo"', '"random seed=1"', "cannot vary seed"),
    ):
        text = STUDY.format("builtin:chain").replace(right, wrong)
        (tmp_path / "study.toml").write_text(text)
        assert why in ictcli.refused("compare", "study.toml")
    assert not (tmp_path / "runs").exists()


FUSSY = """
from ictcli.algorithm.methods import Choice, Options, register


@register("made up")
def fussy(batch, options: Options) -> Choice:
    '''Every token of a few short responses.'''
    if batch.valid.shape[1] > 20 or len(batch.valid) > 4:
        raise RuntimeError("too much")
    return Choice(batch.valid)
"""


@pytest.mark.thorough
def test_what_fails_in_one_comparison_leaves_the_others(ictcli: Processes, tmp_path: Path) -> None:
    """A recipe without a finished run, a rule that fails on the shared rollouts, and recipes that
    measure different things."""
    (tmp_path / "fussy.py").write_text(FUSSY)
    chain = 'model = "builtin:chain"\ntask = "chain"\nmethod = "grpo"\nmax_tokens = 16\n'
    for name, text, k in (
        ("long", MINE.replace("chain", "ledger"), 1),
        ("one", chain, 1),
        ("two", chain, 2),
    ):
        text = f'plugins = ["fussy.py"]\n{text}[eval]\nk = [{k}]\n'
        (tmp_path / f"{name}.toml").write_text(text)
    study = """
        recipes = ["long.toml", "one.toml", "two.toml"]
        methods = ["fussy"]
        baseline = "fussy"
        seeds = 1
        settings = ["steps=1", "prompts=2", "group=2", "eval.problems=4", "eval.n=2"]
        """
    (tmp_path / "study.toml").write_text(study)
    ended = ictcli.run("compare", "study.toml", "--trust")
    assert ended.code == 1, ended.err
    assert "failed: long: Every run of the comparison failed." in ended.err
    assert ended.out.splitlines()[0].split() == ["method", "one", "pass@1", "two", "pass@2"]
    place = tmp_path / "runs" / "compare-study"
    report = (place / "report.md").read_text()
    assert "Without a finished run: long." in report
    headings = [line for line in report.splitlines() if line.startswith("| method | ")]
    assert headings[0] == "| method | one |" and "| method | two |" in headings
    note = "fussy failed on the shared rollouts: RuntimeError: too much"
    assert note in (place / "one" / "report.md").read_text()
    (tmp_path / "study.toml").write_text(study.replace(', "two.toml"', ""))
    assert "a report without two" in ictcli.refused("compare", "study.toml", "--trust")
