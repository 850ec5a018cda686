"""The time that a run takes, from what its parts take, and the operations of a step: laws of their
counts, and what was measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import QWEN, recipe_of, shapes

from ictcli.engine.shape import QWEN2, ModelShape, known_shape, read_shape
from ictcli.errors import UserError
from ictcli.planning.time_estimate import Pace, estimate_time, step_operations
from ictcli.recipe import load_recipe

DENSE, STEP, EVALUATION = 5.0, 2.0, 30.0


class Clock:
    """A run of which every part takes as long as it should, step by step."""

    def __init__(self, *settings: str, done: int = 0) -> None:
        self.recipe = load_recipe("chain", settings)
        self.now, self.done = 100.0, done
        self.pace = Pace(self.recipe, lambda: self.now)

    def evaluate(self) -> None:
        for share in range(5):
            self.pace.evaluating(share, 4)
            self.now += EVALUATION / 4 if share < 4 else 0
        self.pace.evaluated(EVALUATION)

    def step(self) -> None:
        self.done += 1
        self.now += DENSE if self.done <= self.recipe.dense_steps else STEP
        every = self.recipe.eval.every
        if every and self.done % every == 0 and self.done < self.recipe.steps:
            self.evaluate()
        self.pace.stepped(self.done)

    def finish(self) -> float:
        """Seconds to the end of the run."""
        began = self.now
        while self.done < self.recipe.steps:
            self.step()
        self.evaluate()
        return self.now - began

    def check(self) -> None:
        """What is estimated is what the rest takes."""
        estimate = self.pace.estimate()
        assert estimate and estimate.seconds == pytest.approx(self.finish())


@pytest.mark.parametrize("every", [0, 4, 5, 7, 20])
@pytest.mark.parametrize("done", [10, 11, 12, 19, 20])
def test_the_time_left_is_exact_where_steps_take_the_same(every: int, done: int) -> None:
    clock = Clock("steps=20", "warmup=8", f"eval.every={every}")
    clock.evaluate()
    while clock.done < done:
        clock.step()
    clock.check()


@pytest.mark.parametrize("done", [4, 9, 16])
def test_a_resumed_run_is_judged_by_the_steps_of_its_process(done: int) -> None:
    clock = Clock("steps=20", "warmup=0", "eval.every=5", done=done)
    clock.now += 1000.0  # to load
    clock.pace.evaluated(EVALUATION)  # of an earlier process
    clock.step()
    clock.step()
    clock.check()


def test_the_time_before_a_step_is_that_of_the_whole_run() -> None:
    clock = Clock("steps=20", "warmup=8", "eval.every=6")
    whole = estimate_time(clock.recipe, step=STEP, dense_step=DENSE, evaluation=EVALUATION)
    began = clock.now
    clock.evaluate()
    clock.finish()
    assert whole.seconds == pytest.approx(clock.now - began)
    assert whole.parts() == "8 dense steps of 5s, 12 steps of 2s, 5 evaluations of 30s"


def test_no_time_is_told_before_the_first_step_and_it_falls_during_the_last_evaluation() -> None:
    clock = Clock("steps=2", "warmup=0")
    clock.evaluate()
    assert clock.pace.estimate() is None and clock.pace.left() == "-"
    clock.step()
    clock.step()
    assert clock.pace.left() == "30s"
    clock.pace.evaluating(0, 4)
    clock.pace.evaluating(3, 4)
    assert clock.pace.left() == "8s"


def test_the_estimate_follows_steps_that_get_longer() -> None:
    clock = Clock("steps=200", "warmup=0")
    clock.evaluate()
    for _ in range(30):
        clock.step()
    for number in range(31, 91):
        clock.now += 9.0
        clock.pace.stepped(number)
    estimate = clock.pace.estimate()
    assert estimate and estimate.step == pytest.approx(9.0)


# Operations


def operations(
    shape: ModelShape, kept: float, signal: float = 1.0, **settings: object
) -> tuple[float, float]:
    """Sampling and update of 2 prompts of 16 tokens with 4 responses of 128."""
    recipe = recipe_of(**{"prompts": 2, "group": 4, **settings})
    each = (np.array([value]) for value in (128.0, signal, kept))
    sampled, updated = step_operations(recipe, shape, 16.0, *each)
    return float(sampled[0]), float(updated[0])


def test_it_is_what_was_measured_of_a_wide_vocabulary() -> None:
    """docs/speed.md: an update of a tenth took 0.31 of a dense one with 4 of Qwen2.5-0.5B's layers,
    and 0.69 with all 24."""
    four = replace(QWEN, layers=4)
    sizes = (four, *QWEN2.values())
    found = [operations(shape, 0.1)[1] / operations(shape, 1)[1] for shape in sizes]
    assert found[:2] == [pytest.approx(0.31, rel=0.1), pytest.approx(0.69, rel=0.1)]
    assert [round(each, 2) for each in found] == [0.34, 0.75, 0.86, 0.91]  # docs/compare.md


@given(shapes, st.floats(0, 1), st.floats(0, 1))
def test_less_that_is_trained_takes_less(shape: ModelShape, some: float, more: float) -> None:
    some, more = sorted((some, more))
    assert operations(shape, some)[1] <= operations(shape, more)[1]
    assert operations(shape, 1, some)[1] <= operations(shape, 1, more)[1]
    assert operations(shape, some)[0] == operations(shape, more)[0]
    assert operations(shape, 1, some, kl=0.1)[1] == operations(shape, 1, more, kl=0.1)[1]
    assert operations(shape, some, update={"epochs": 2})[1] == 2 * operations(shape, some)[1]


def test_a_dense_update_is_three_times_its_forward_pass() -> None:
    """As sampling is one, but for what is read of the prompts."""
    sampled, updated = operations(QWEN, 1)
    assert updated / sampled == pytest.approx(3, rel=0.2)
    assert operations(QWEN, 1, adapter={"kind": "lora"})[1] == pytest.approx(2 / 3 * updated)


def test_a_config_alone_or_a_recipes_model_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "vocab_size": 151936,'
        '"num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,'
        '"max_position_embeddings": 32768, "tie_word_embeddings": true}'
    )
    assert known_shape(str(tmp_path)) == replace(QWEN, longest=known_shape(str(tmp_path)).longest)
    assert known_shape("Qwen/Qwen2.5-0.5B-Instruct") == QWEN


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("Qwen/Qwen2.5-0.5B", 494_032_768),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("mlx-community/Qwen2.5-1.5B-Instruct-4bit", 1_543_714_304),
    ],
)
def test_the_models_of_the_recipes_need_no_network(model: str, parameters: int) -> None:
    """Parameters as their pages on the hub have them."""
    shape = read_shape(model)
    assert shape.parameters == parameters and bool(shape.bits) == model.endswith("-4bit")
    with pytest.raises(UserError):
        read_shape(model.replace("/", "/Other-"))
