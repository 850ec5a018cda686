"""What a recipe says of rewards, data and the problems it is evaluated on."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine, build_engine
from ictcli.recipe import Recipe, load_recipe
from ictcli.runs import Run
from ictcli.runs.observer import Observer
from ictcli.tasks.prepare import task_of
from ictcli.train.evaluations import evaluate_heldout
from ictcli.train.sample import sample_batch

SMALL = ("prompts=4", "group=4", "max_tokens=16", "warmup=0")


def recipe_of(folder: Path, *overrides: str, text: str = "") -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(
        f'model = "builtin:chain"\ntask = "chain"\nmethod = "grpo"\nsteps = 2\n{text}\n'
    )
    return load_recipe(path, [*SMALL, *overrides])


def write_rows(path: Path, n: int, seed: int = 0) -> Path:
    rng = random.Random(seed)
    rows = [{"question": f"{rng.random()}=", "answer": f"so\n#### {i}"} for i in range(n)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_bare_reward_is_the_verifier_alone(tmp_path: Path) -> None:
    named = recipe_of(tmp_path, "reward=integer")
    assert named.reward.verifier == "integer"
    assert recipe_of(tmp_path, "reward.format=0.1", text='reward = "integer"').reward == (
        named.reward.model_copy(update={"format": 0.1})
    )
    assert recipe_of(tmp_path, text='[reward]\nverifier = "integer"').reward == named.reward


def test_files_are_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def grade(response, gold): return len(response) % 2 == 0\n")
    write_rows(tmp_path / "rows.jsonl", 60)
    text = '[reward]\nverifier = "mine.py:grade"\n[eval]\nbench = "gsm8k"\ndata = "rows.jsonl"\n'
    recipe = recipe_of(tmp_path, text=text)
    assert recipe.reward.verifier == f"{tmp_path / 'mine.py'}:grade"
    assert recipe.eval.data == str(tmp_path / "rows.jsonl")
    assert recipe_of(tmp_path, "task=gsm8k", "data=rows.jsonl").data == str(tmp_path / "rows.jsonl")


def test_rewards_are_the_verdicts_of_that_verifier_and_shaped(
    tmp_path: Path, engine: Engine
) -> None:
    (tmp_path / "mine.py").write_text("def grade(response, gold): return len(response) % 2 == 0\n")
    recipe = recipe_of(tmp_path, "reward=mine.py:grade", "reward.correct=2", "reward.length=0.5")
    batch = sample_batch(recipe, engine, task_of(recipe), 1)
    expected = [
        2.0 * (len(text) % 2 == 0) - 0.5 * length / 16
        for text, length in zip(batch.texts, batch.rollouts.lengths, strict=True)
    ]
    assert batch.rewards == pytest.approx(expected) and np.ptp(expected) > 0


def test_a_run_is_evaluated_on_the_benchmark_it_names(tmp_path: Path, tiny_model: Path) -> None:
    data = write_rows(tmp_path / "rows.jsonl", 60)
    recipe = recipe_of(
        tmp_path,
        f"model={tiny_model}",
        "eval.bench=gsm8k",
        f"eval.data={data}",
        "eval.problems=5",
        "prompt.suffix=",
    )
    engine = build_engine(recipe.model, recipe.engine, recipe.optimizer)
    with Run.create(tmp_path / "run", recipe) as run:
        observer, task = Observer(), task_of(recipe)
        found = evaluate_heldout(run, recipe, task, engine, observer, lambda: False, "before")
    assert found.benchmark == "gsm8k" and found.problems == 5


def test_evaluations_may_be_judged_by_another_verifier(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "short.py").write_text("def grade(response, gold): return len(response) < 9\n")
    verifiers = ("reward=integer", f"eval.verifier={tmp_path / 'short.py'}:grade")
    recipe = recipe_of(tmp_path, *verifiers, "eval.problems=5")
    task = task_of(recipe)
    with Run.create(tmp_path / "run", recipe) as run:
        evaluate_heldout(run, recipe, task, engine, Observer(), lambda: False, "before")
    lines = (tmp_path / "run" / "eval" / "before.jsonl").read_text().splitlines()
    for sample in map(json.loads, lines):
        assert (sample["status"] == "correct") == (len(sample["response"]) < 9)
    batch = sample_batch(recipe, engine, task, 1)
    assert any(len(text) < 9 for text in batch.texts) and not batch.correct.any()
