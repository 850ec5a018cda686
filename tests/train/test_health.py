"""Alarms: steps without a group of unequal rewards, and steps that were not finite."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ictcli.console.results import _declined
from ictcli.recipe import load_recipe
from ictcli.rewards import Verdict
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.runs.records import StepMetrics, Summary
from ictcli.runs.rollouts import Batch
from ictcli.tasks.prepare import task_of
from ictcli.train.diagnosis import Signal, advice, without_signal
from ictcli.train.health import Health
from ictcli.types import Problem, Rollouts


def batch(statuses: str, finished: str, advantage: float = 0.0) -> Batch:
    """Two groups of two responses, a letter each: c(orrect), w(rong), u(nparsed); y(es), n(o)."""
    words = {"c": "correct", "w": "wrong", "u": "unparsed"}
    rollouts = Rollouts(
        prompts=((1,), (2,)),
        group=2,
        tokens=np.ones((4, 1), dtype=np.int64),
        lengths=np.ones(4, dtype=np.int64),
        finished=np.array([letter == "y" for letter in finished]),
        logp=np.zeros((4, 1), dtype=np.float32),
        stats={},
    )
    verdicts = [Verdict(words[letter]) for letter in statuses]  # type: ignore[arg-type]
    rewards = np.array([verdict.reward for verdict in verdicts])
    problems = [Problem("1", "1", "1"), Problem("2", "2", "2")]
    return Batch(problems, rollouts, [""] * 4, verdicts, rewards, np.array([0, 0, 0, advantage]))


def test_without_a_group_of_unequal_rewards_shares_count_responses_and_groups() -> None:
    assert without_signal(batch("ccuw", "yynn")) == Signal(0, 0.25, 0.25, 0.5, 0.5)
    assert without_signal(batch("uuuu", "nnny")) == Signal(0.25, 0.75, 0, 0, 1)
    assert without_signal(batch("cccc", "yyyy")) == Signal(0, 0, 0, 1, 0)
    assert without_signal(batch("cccw", "yyyy", advantage=-1.0)) is None


def test_advice_follows_the_largest_share() -> None:
    recipe = load_recipe("chain", [])
    domain = task_of(recipe).domain
    for signal, wanted in (
        (Signal(0.05, 0.95, 0, 0, 1), "max_tokens=128 "),
        (Signal(0.9, 0.1, 0, 0, 1), "ictcli grade 'my run/eval/before.jsonl' --kind chain"),
        (Signal(0, 0, 0, 1, 0), "group=16"),
        (Signal(0, 0, 0.9, 0.1, 0.9), "ictcli grade"),
        (Signal(0, 0, 0.4, 0.4, 0.4), "group=16"),
    ):
        assert advice(Path("my run"), recipe, domain, signal)[1].startswith(wanted)


@pytest.mark.parametrize(
    ("figure", "values", "told"),
    [
        ("sampler_gap", (1.9, 2.1, 2.5, 0.1, 2.2), "by {:.2g} nats.* at step {}.*sampler=own"),
        ("truncated", (0.5, 0.6, 0.4, 0.1, 0.9), "{:.1%} of .* step {} are cut.*max_tokens=128 "),
    ],
)
def test_what_is_wrong_is_told_once_until_it_is_right_again(
    figure: str, values: tuple[float, ...], told: str, tmp_path: Path
) -> None:
    recipe = load_recipe("chain", ["engine.sampler=vllm", "max_tokens=64"])
    said: list[str] = []
    with Run.create(tmp_path / "run", recipe) as run:
        health = Health(run, recipe, task_of(recipe).domain, said.append)
        for step, value in enumerate(values, 1):
            metrics = StepMetrics.model_validate({"step": step, "updates": 1, figure: value})
            health.react(health.check(State(step=step), metrics), State(step=step), metrics)
    assert len(said) == 2
    for message, step in zip(said, (2, 5), strict=True):
        assert re.search(told.format(values[step - 1], step).replace("%", " %"), message), message


@pytest.mark.parametrize("seed", range(4))
def test_a_decline_is_no_noise(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rising shares of a step's 64 rollouts are none; a fall by half is one, and is told once, and
    at the end, with checkpoints or without."""
    rng = np.random.default_rng(seed)
    shares = rng.binomial(64, [*np.linspace(0.4, 0.8, 40), *[0.4] * 12]) / 64
    told: list[int] = []
    recipe, state = load_recipe("chain", []), State()
    with Run.create(tmp_path / "run", recipe) as run:
        health = Health(run, recipe, task_of(recipe).domain, lambda said: told.append(state.step))
        for step, share in enumerate(shares.tolist(), 1):
            metrics = StepMetrics(step=step, updates=1, correct=share)
            run.append(metrics)
            state.step = step
            health.react(health.check(state, metrics), state, metrics)
    assert len(told) == 1 and 41 < told[0] <= 45
    _declined(cast(Summary, SimpleNamespace(steps=state.step)), tmp_path / "run", recipe)
    assert "at its best" in capsys.readouterr().err
