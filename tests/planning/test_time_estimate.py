"""The time that a run takes, from what its parts take."""

import pytest

from ictcli.planning.time_estimate import Pace, estimate_time
from ictcli.recipe import Recipe, load_recipe

STEP, EVALUATION = 2.0, 30.0


def seconds_left(recipe: Recipe, done: int) -> float:
    """Seconds to the end of a run of equal steps and evaluations, counted one by one."""
    every, seconds = recipe.eval.every, EVALUATION
    for number in range(done + 1, recipe.steps + 1):
        seconds += STEP
        if every and number % every == 0 and number < recipe.steps:
            seconds += EVALUATION
    return seconds


@pytest.mark.parametrize("every", [0, 4, 5, 7, 20])
@pytest.mark.parametrize("done", [2, 10, 12, 19, 20])
def test_the_time_left_is_exact_where_steps_take_the_same(every: int, done: int) -> None:
    recipe = load_recipe("chain", ["steps=20", f"eval.every={every}"])
    pace = Pace(recipe)
    assert pace.left() == "-"
    pace.evaluation = EVALUATION
    for number in (done - 1, done):  # of a resumed run
        pace.stepped(number, STEP)
    estimate = pace.estimate()
    assert estimate and estimate.seconds == pytest.approx(seconds_left(recipe, done))


def test_the_time_before_a_step_is_that_of_the_whole_run() -> None:
    recipe = load_recipe("chain", ["steps=20", "eval.every=6"])
    whole = estimate_time(recipe, STEP, EVALUATION)
    assert whole.seconds == pytest.approx(EVALUATION + seconds_left(recipe, 0))
    assert whole.parts() == "20 steps of 2s, 5 evaluations of 30s"
    taught = load_recipe("chain", ["steps=20", "eval.every=6", "sft.data=taught.jsonl"])
    assert estimate_time(taught, STEP, EVALUATION).evaluations == 6


def test_the_estimate_follows_steps_that_get_longer_and_leaves_out_the_first() -> None:
    pace = Pace(load_recipe("chain", ["steps=200"]))
    for number, (seconds, expected) in enumerate([(99.0, 99.0), (2.0, 2.0), (4.0, 3.0)], 1):
        pace.stepped(number, seconds)
        estimate = pace.estimate()
        assert estimate and estimate.step == pytest.approx(expected)
    for number in range(4, 30):
        pace.stepped(number, 9.0)
    estimate = pace.estimate()
    assert estimate and estimate.step == pytest.approx(9.0)
