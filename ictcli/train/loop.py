"""The loop: prompts, rollouts, rewards, advantages, trained tokens, weights, update, metrics.

Everything that a step decides is a function of (recipe, step, weights): a run that is killed and
resumed from its last checkpoint repeats the lost steps bit for bit. `ictcli.train.sample` samples
the batch of a step, `ictcli.train.step` has its other parts, `ictcli.train.health` the alarms.
"""

import time
from collections.abc import Callable
from functools import partial

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError
from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe
from ictcli.runs import Run, checkpoints
from ictcli.runs.observer import Observer, Step
from ictcli.runs.records import StepMetrics, StepTimings, Summary
from ictcli.tasks import Task
from ictcli.text import command
from ictcli.train.diagnosis import unlearned
from ictcli.train.evaluations import evaluate_heldout, known_evaluation, with_passes
from ictcli.train.finish import finish
from ictcli.train.health import Health
from ictcli.train.sample import sample_batch
from ictcli.train.sft import supervise
from ictcli.train.step import measure, optimise, select


def train(
    run: Run,
    recipe: Recipe,
    task: Task,
    engine: Engine,
    observer: Observer,
    interrupted: Callable[[], bool] = lambda: False,
    track: Callable[[int], None] = lambda step: None,
    begin: Callable[[], None] = lambda: None,
    clock: Callable[[checkpoints.State], None] | None = None,
) -> Summary:
    """Train a run to its end, from its newest checkpoint if there is one; return its summary.

    `begin` is called when all checks have passed and a checkpoint is restored, then `track` with
    the number of steps done. If `interrupted` returns True after a step, the run is saved and
    InterruptedRunError raised. `clock` adds the elapsed seconds to a state. RunFailedError if an
    alarm of `ictcli.train.health` stops the run.
    """
    clock = clock or checkpoints.stopwatch()
    if recipe.kl > 0:
        engine.keep_reference()
    evaluate = partial(evaluate_heldout, run, recipe, task, engine, observer, interrupted)
    health = Health(run, recipe, task.domain, observer.warned)

    def judge(evaluation: Evaluation) -> None:
        """Record the current step if it is the best so far by this `evaluation` of its weights."""
        metrics = with_passes(StepMetrics(step=state.step), recipe.eval.k, evaluation)
        if checkpoints.update_best(state, recipe.checkpoint.best, metrics, due=False):
            checkpoints.prune(run.folder, state, recipe.checkpoint.last)

    recorded = known_evaluation(run, recipe, "before", observer.warned)
    before = recorded or evaluate("before")  # must come before a checkpoint is restored
    state = run.restore(engine, observer.warned)
    begin()
    engine.budget.restore(state.budget)
    track(state.sft + state.step)
    if recorded:
        observer.evaluated("before", recorded)
        if state.step:  # else the evaluation may be copied from a run with the same seed
            observer.resumed(state.step)
    if state.step:
        if last := known_evaluation(run, recipe, f"step-{state.step:06d}"):  # after `extend`
            judge(last)
    elif task.sft:
        supervise(run, recipe, task, engine, state, observer, interrupted, clock)
        if recipe.steps and not known_evaluation(run, recipe, "step-000000"):
            evaluate("step-000000")  # separates the effect of these steps from that of RL

    for number in range(state.step + 1, recipe.steps + 1):
        started = time.perf_counter()
        batch = sample_batch(recipe, engine, task, number)  # rollouts, verdicts, advantages
        health.check_batch(batch)
        sampled = time.perf_counter()
        selection = select(recipe, batch, number)  # kept tokens and weights, (B, T)
        reports = optimise(recipe, engine, batch, selection, number)
        updated = time.perf_counter()
        metrics = measure(recipe, number, batch, selection, reports)
        state.train_s += time.perf_counter() - started

        if recipe.eval.every and number % recipe.eval.every == 0 and number < recipe.steps:
            metrics = with_passes(metrics, recipe.eval.k, evaluate(f"step-{number:06d}"))
        timings = StepTimings(
            step=number,
            sample_s=round(sampled - started, 4),
            update_s=round(updated - sampled, 4),
            peak_bytes=engine.peak_memory(),
        )
        state.budget = engine.budget.state()
        state.add(metrics, batch, selection.kept)
        clock(state)
        run.append(metrics)
        run.append(timings)
        every = recipe.record.rollouts_every
        if every and (number % every == 0 or number == recipe.steps):
            run.record_rollouts(number, batch, selection.kept, selection.weights)
        observer.stepped(Step(batch, selection.kept, metrics, timings))

        stop = interrupted()
        alarms = health.check(state, metrics)
        if metrics.finite:  # a skipped step is not saved
            due = number % recipe.checkpoint.every == 0 or number == recipe.steps
            best = checkpoints.update_best(state, recipe.checkpoint.best, metrics, due=due)
            if stop or due or best or any(alarms.values()):
                run.checkpoint(engine, state, recipe.checkpoint.last)
        health.react(alarms, state, metrics)
        if stop and number < recipe.steps:
            saved = "and saved" if metrics.finite else "but not saved: loss or gradient not finite"
            raise InterruptedRunError(
                f"Interrupted: step {number} of {recipe.steps} is finished {saved}.",
                command("resume", run.folder),
            )

    after = evaluate("after")
    if state.step and state.nonfinite == 0:  # else the last step was skipped, and not saved
        judge(after)
    reason = unlearned(run, recipe, task.domain)
    clock(state)
    return finish(run, recipe, engine, state, before, after, reason, len(task.sft))
