"""What is said at the end of steps that were not finite."""

from pathlib import Path

import pytest

from ictcli.errors import RunFailedError
from ictcli.recipe import load_recipe
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.runs.records import StepMetrics
from ictcli.tasks.prepare import task_of
from ictcli.train.health import Health


@pytest.mark.parametrize(
    ("skipped", "told"), [(3, r"is not finite\. No"), (8, "; 5 before had too, and were left out")]
)
def test_steps_that_were_left_out_untold_are_told_at_the_end(
    tmp_path: Path, skipped: int, told: str
) -> None:
    recipe = load_recipe("chain", ["alarms.nonfinite=off"])
    state = State(step=9, nonfinite=3, skipped=skipped)
    with Run.create(tmp_path / "run", recipe) as run, pytest.raises(RunFailedError, match=told):
        health = Health(run, recipe, task_of(recipe).domain, print)
        metrics = StepMetrics(step=9, updates=0, finite=False)
        health.react(health.check(state, metrics), state, metrics)
