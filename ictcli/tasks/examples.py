"""Few-shot examples: read from a file, or drawn from the problems of a task."""

from __future__ import annotations

from collections.abc import Sequence

from ictcli.errors import UserError
from ictcli.recipe.settings import Example
from ictcli.seeds import generator
from ictcli.tasks import Task
from ictcli.types import Problem


def draw_examples(
    task: Task, problems: Sequence[Problem], n: int, seed: int
) -> tuple[Example, ...]:
    """n of these problems with their worked responses: the same for a seed. UserError where the
    task has none to show, or too few."""
    able = [problem for problem in problems if problem.id in task.solutions]
    if not able:
        raise UserError(
            f"The task {task.name} has no worked responses to show as examples.",
            "prompt.examples = a file with a prompt and a response a row",
        )
    if len(able) <= n:
        raise UserError(
            f"The task {task.name} has {len(able)} problems to train on, and prompt.shots = {n} "
            "would take them all.",
            "lower prompt.shots",
        )
    order = generator(seed, "shots").permutation(len(able))[:n]
    chosen = [able[int(place)] for place in order]
    return tuple(Example(prompt=p.prompt, response=task.solutions[p.id]) for p in chosen)
