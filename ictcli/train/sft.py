"""Supervised steps before reinforcement learning, on examples with responses.

They use the same update as other steps, with the examples' responses in place of sampled ones and
an advantage of 1. Each step is a function of (recipe, step, weights), as in `ictcli.train.loop`.
"""

import time
from collections.abc import Callable

import numpy as np

from ictcli.algorithm.objective import LIKELIHOOD, Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine import Engine
from ictcli.engine.update import Update
from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.runs.observer import Observer
from ictcli.runs.records import SftMetrics
from ictcli.seeds import seed_of
from ictcli.tasks import Task
from ictcli.tasks.sft import given_rollouts
from ictcli.tasks.task import shuffled_batch
from ictcli.text import command

NLL = Objective(eps_low=0.0, eps_high=0.0, clip_on=LIKELIHOOD.on)
"""The loss -sum w log pi, at temperature 1."""


def supervise(
    run: Run,
    recipe: Recipe,
    task: Task,
    engine: Engine,
    state: State,
    observer: Observer,
    interrupted: Callable[[], bool],
    clock: Callable[[State], None],
) -> None:
    """Train on the task's examples until `sft.steps` steps are done, then reset the optimiser. Each
    step is an update on the mean of -log pi over the tokens of `sft.batch` responses. Checkpoints
    are saved as in `ictcli.train.loop`."""
    settings, seed = recipe.sft, seed_of(recipe.seed, "sft")
    for number in range(state.sft + 1, settings.steps + 1):
        started = time.perf_counter()
        examples = shuffled_batch(task.sft, seed, number, settings.batch)
        rollouts = given_rollouts(engine, examples, task.domain, task.prompt)
        weights = normalise(rollouts.valid, rollouts.valid, "tokens", recipe.max_tokens)
        update = Update(rollouts, weights, np.ones(len(rollouts)), NLL)
        report = engine.update(update, recipe.sft_lr)
        if not report.finite:
            raise RunFailedError(
                f"The loss or the gradient of supervised step {number} is not finite.",
                f"train again with a learning rate below sft.lr={recipe.sft_lr:g}",
            )
        metrics = SftMetrics(
            step=number,
            loss=report.loss,
            tokens=report.evaluated,
            grad_norm=report.grad_norm,
            lr=recipe.sft_lr,
        )
        run.append(metrics)
        state.sft, done = number, number == settings.steps
        if done:
            engine.reset_optimizer()
        state.train_s += time.perf_counter() - started
        clock(state)
        state.budget = engine.budget.state()
        observer.supervised(metrics)
        stop = interrupted()
        if stop or done or number % recipe.checkpoint.every == 0:
            run.checkpoint(engine, state, recipe.checkpoint.last)
        if stop:
            raise InterruptedRunError(
                f"Interrupted: supervised step {number} of {settings.steps} is finished and saved.",
                command("resume", run.folder),
            )
