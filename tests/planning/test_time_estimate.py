"""The time that a run takes, from what its parts take; and the sizes of the recipes' models."""

import pytest

from ictcli.engine.shape import read_shape
from ictcli.errors import UserError
from ictcli.planning.time_estimate import Pace, estimate_time
from ictcli.recipe import load_recipe

STEP, EVALUATION = 2.0, 30.0


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
        self.now += STEP
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
    clock = Clock("steps=20", f"eval.every={every}")
    clock.evaluate()
    while clock.done < done:
        clock.step()
    clock.check()


@pytest.mark.parametrize("done", [4, 9, 16])
def test_a_resumed_run_is_judged_by_the_steps_of_its_process(done: int) -> None:
    clock = Clock("steps=20", "eval.every=5", done=done)
    clock.now += 1000.0  # to load
    clock.pace.evaluated(EVALUATION)  # of an earlier process
    clock.step()
    clock.step()
    clock.check()


def test_the_time_before_a_step_is_that_of_the_whole_run() -> None:
    clock = Clock("steps=20", "eval.every=6")
    whole = estimate_time(clock.recipe, step=STEP, evaluation=EVALUATION)
    began = clock.now
    clock.evaluate()
    clock.finish()
    assert whole.seconds == pytest.approx(clock.now - began)
    assert whole.parts() == "20 steps of 2s, 5 evaluations of 30s"


def test_no_time_is_told_before_the_first_step_and_it_falls_during_the_last_evaluation() -> None:
    clock = Clock("steps=2")
    clock.evaluate()
    assert clock.pace.estimate() is None and clock.pace.left() == "-"
    clock.step()
    clock.step()
    assert clock.pace.left() == "30s"
    clock.pace.evaluating(0, 4)
    clock.pace.evaluating(3, 4)
    assert clock.pace.left() == "8s"


def test_the_estimate_follows_steps_that_get_longer() -> None:
    clock = Clock("steps=200")
    clock.evaluate()
    for _ in range(30):
        clock.step()
    for number in range(31, 91):
        clock.now += 9.0
        clock.pace.stepped(number)
    estimate = clock.pace.estimate()
    assert estimate and estimate.step == pytest.approx(9.0)


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
