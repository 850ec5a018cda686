"""What a recipe says of rewards, data and the problems it is evaluated on."""

import json
from pathlib import Path

import numpy as np
import pytest
from written import numbered, write

from ictcli.engine import Engine
from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.rewards.verifiers import name_of
from ictcli.runs import Run
from ictcli.runs.observer import Observer
from ictcli.tasks.prepare import task_of
from ictcli.train.evaluations import evaluate_heldout
from ictcli.train.sample import sample_batch


def recipe_of(folder: Path, *overrides: str, text: str = "") -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(
        f'model = "builtin:chain"\ntask = "chain"\nmethod = "grpo"\nsteps = 2\n{text}\n'
    )
    return load_recipe(path, ["prompts=4", "group=4", "max_tokens=16", "warmup=0", *overrides])


def test_another_task_leaves_out_what_the_recipe_says_of_its_own() -> None:
    name, typed = "smollm2-135m-invoices", ["task=gsm8k", "prompt.system=Count."]
    other = load_recipe(name, typed)
    assert {"sft.data", "eval.bench", "reward.pattern"} < {*other.left_out}
    assert (other.sft.data, other.eval.bench, other.reward.pattern) == (None, None, None)
    assert other.prompt.system == "Count."
    assert load_recipe(name, ["lr=1"]) == load_recipe(name).model_copy(update={"lr": 1})


def test_files_are_found_beside_the_recipe(tmp_path: Path) -> None:
    text = 'plugins = ["beside.py"]\n[reward]\nverifier = "mine.py:grade"\n[eval]\ndata = "e.csv"\n'
    names = ("beside.py", "mine.py", "e.csv", "d.csv")
    for name in names:
        (tmp_path / name).write_text("loaded = True\n")
    recipe = recipe_of(tmp_path, "task=gsm8k", "data=d.csv", "eval.bench=gsm8k", text=text)
    judge = (recipe.reward.verifier or "").removesuffix(":grade")
    files = (*recipe.plugins, judge, recipe.eval.data, recipe.data)
    assert files == tuple(str(tmp_path / name) for name in names)
    (tmp_path / "run.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "run.toml") == recipe


def test_a_run_is_trained_by_the_verdicts_and_evaluated_on_and_by_what_the_recipe_names(
    tmp_path: Path, engine: Engine
) -> None:
    for name, condition in (("even", "len(response) % 2 == 0"), ("short", "len(response) < 9")):
        text = f"def grade(response, gold): return {condition}\n"
        (tmp_path / f"{name}.py").write_text(text)
    rows = [{"question": f"{i}+1=", "answer": f"so\n#### {i}"} for i in range(9)]
    recipe = recipe_of(
        tmp_path,
        *("reward=even.py:grade", "reward.correct=2", "reward.length=0.5", "prompt.suffix="),
        *("eval.verifier=short.py:grade", "eval.bench=gsm8k", f"eval.data={write(tmp_path, rows)}"),
        "eval.problems=5",
    )
    task = task_of(recipe)
    with Run.create(tmp_path / "run", recipe) as run:
        found = evaluate_heldout(run, recipe, task, engine, Observer(), lambda: False, "before")
    assert found.benchmark == "gsm8k" and found.problems == 5
    lines = (tmp_path / "run" / "eval" / "before.jsonl").read_text().splitlines()
    for sample in map(json.loads, lines):
        assert (sample["status"] == "correct") == (len(sample["response"]) < 9)
    batch = sample_batch(recipe, engine, task, 1)
    expected = [
        2.0 * (len(text) % 2 == 0) - 0.5 * length / 16
        for text, length in zip(batch.texts, batch.rollouts.lengths, strict=True)
    ]
    assert batch.rewards == pytest.approx(expected) and np.ptp(expected) > 0


def test_a_file_to_evaluate_on_is_judged_by_the_verifier_that_the_recipe_names(
    tmp_path: Path,
) -> None:
    """So are its golds read; a verifier that nobody names is chosen by the golds of each."""
    files = (("integers", "12", "0+{}="), ("words", "yes", "1+{}="))
    integers, words = (
        write(tmp_path, numbered(map(asked.format, range(9)), gold), name=name)
        for name, gold, asked in files
    )
    both = (f"task={integers}", f"eval.bench={words}", "prompt.suffix=")

    def judges(*overrides: str) -> list[str]:
        task = task_of(recipe_of(tmp_path, *both, *overrides))
        return [name_of(domain.verify) for domain in (task.domain, task.exam[1])]

    assert judges() == ["integer", "text"]
    assert judges("reward=math") == ["math", "math"]
    assert judges("reward=math", "eval.verifier=text") == ["math", "text"]
