"""Laws of several rewards: their weighted sum is trained on, each has its mean, none is a crash."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from observing import Make, go
from refusing import refused

from ictcli.errors import RunFailedError
from ictcli.recipe import load_recipe
from ictcli.recipe.metrics import unrecorded
from ictcli.rewards import Verdict
from ictcli.runs import Run
from ictcli.runs.records import StepMetrics
from ictcli.runs.rollouts import Batch
from ictcli.train.check import check
from ictcli.train.health import Health
from ictcli.train.sample import sample_batch
from ictcli.train.step import measure, optimise, select

FILE = """
def letters(completions):
    return [float(len(text)) for text in completions]

def odd(prompts, completions, gold):
    return [1.0 if len(text) % 2 else None for text in completions]

def broken(prompts, completions, **kwargs):
    raise KeyError("answer")

def gone(completions):
    import os
    os._exit(3)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workers begin anew where another file is read."""
    path = tmp_path_factory.mktemp("functions") / "mine.py"
    path.write_text(FILE)
    return path


def test_the_weighted_sum_is_the_reward_and_each_has_its_mean(make: Make, file: Path) -> None:
    functions = f'reward.functions=["{file}:letters", "{file}:odd"]'
    recipe, engine, task = make(functions, "reward.weights=[0.1, -2]", "reward.correct=3")
    batch = sample_batch(recipe, engine, task, 1)
    lengths = np.array([len(text) for text in batch.texts])
    odd = lengths % 2 == 1  # the verifier is right where it is even
    assert 0 < odd.sum() < len(odd)
    np.testing.assert_allclose(batch.rewards, 3.0 * ~odd + 0.1 * lengths - 2.0 * odd)
    selection = select(recipe, batch, 1)
    metrics = measure(recipe, 1, batch, selection, optimise(recipe, engine, batch, selection, 1))
    assert metrics.value("reward/letters") == pytest.approx(lengths.mean())
    assert metrics.value("reward/odd") == 1.0  # of those that got one
    assert metrics.value("reward/even") == metrics.correct == pytest.approx(1 - odd.mean())


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("reward={}:broken", r"broken failed on all of \d+ answers: KeyError"),
        ("reward.functions={}:gone", r"gone failed on all of \d+ answers: its worker died"),
    ],
)
def test_a_verifier_that_judges_no_answer_stops_the_run(
    make: Make, file: Path, tmp_path: Path, key: str, said: str
) -> None:
    with pytest.raises(RunFailedError, match=said) as told:
        go(make(key.format(file), "prompts=2"), tmp_path / "run")
    assert told.value.exit_code == 1 and not Run(tmp_path / "run").checkpoints()


def test_a_verifier_that_worked_may_fail_for_two_steps(
    make: Make, file: Path, tmp_path: Path
) -> None:
    (file.parent / "later.py").write_text(FILE.replace("odd", "even").replace("gone", "odd"))
    batches: list[Batch] = []
    for place in (file, file.parent / "later.py"):
        recipe, engine, task = make(f"reward.functions={place}:odd", "prompts=2")
        batches.append(sample_batch(recipe, engine, task, 1))
    (works, fails), said = batches, list[str]()
    with Run.create(tmp_path / "run", recipe) as run:
        health = Health(run, recipe, task.domain, said.append)
        for batch in (works, fails, fails, works, fails, fails):
            health.check_batch(batch)
        parts = dict(fails.parts) | {"odd": [Verdict("timeout"), *fails.parts["odd"][1:]]}
        with refused("odd gave a verdict on none of 8 answers", kind=RunFailedError):
            health.check_batch(replace(fails, parts=parts))
        run.append(StepMetrics(step=1))
        resumed = Health(run, recipe, task.domain, lambda text: None)
        for batch in (fails, fails):
            resumed.check_batch(batch)
        with refused("odd failed on all of 8 answers: its worker died", kind=RunFailedError):
            resumed.check_batch(fails)
    assert said == ["The verifier odd failed: its worker died (exit 3) (8 of 8 responses)"]


def test_a_check_stops_where_training_would_and_has_each_mean(make: Make, file: Path) -> None:
    recipe, _, _ = make(f"reward.functions={file}:odd")
    tried = check(recipe, 60, lambda text: None, most=4).tried
    assert tried is not None and set(tried.rewards) == {"even", "odd"}
    assert tried.rewards["even"] == tried.sampled["correct"] / tried.answers == 1 / 2
    with refused("The function broken fails on the first problem of chain: KeyError"):
        check(make(f"reward.functions={file}:broken")[0], 60, lambda text: None)


def test_a_function_named_as_the_judge_takes_no_metric_from_it(make: Make, file: Path) -> None:
    (file.parent / "other.py").write_text(FILE)
    recipe, engine, task = make(
        f"reward={file}:odd", f"reward.functions={file.parent}/other.py:odd"
    )
    assert set(sample_batch(recipe, engine, task, 1).parts) == {"verdict", "odd"}


def test_only_the_name_of_its_metric_chooses_a_checkpoint_by_a_reward(file: Path) -> None:
    recipe = load_recipe("chain", [f"reward={file}:odd", f"reward.functions={file}:letters"])
    for name in ("reward/odd", "-reward/letters"):
        assert unrecorded(recipe, name) is None
    for name in ("odd", "letters", "reward/broken"):
        assert unrecorded(recipe, name) is not None


def test_weights_that_do_not_fit_are_refused(file: Path) -> None:
    with refused("reward.functions has 1 entries, and reward.weights 2"):
        load_recipe("chain", [f"reward.functions={file}:odd", "reward.weights=[1, 2]"])
    with refused("only once"):
        load_recipe("chain", [f'reward.functions=["{file}:odd", "{file}:odd"]'])
