"""The loop: prompts, rollouts, rewards, advantages, kept tokens, weights, update, metrics.

Everything a step decides is a function of (recipe, step, weights), so a run killed at any moment
and resumed from its last checkpoint repeats what it lost, to the bit. `ictcli.train.step` has the
parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ictcli.algorithm.alarms import entropy_alarm
from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.recipe import Recipe
from ictcli.recipe.metrics import direction, is_dense
from ictcli.runs import Run, checkpoints
from ictcli.runs.checkpoints import State
from ictcli.tasks import Task
from ictcli.train.evaluations import evaluation, finish, known_before
from ictcli.train.step import Batch, Plan, fork_mask, measure, optimise, sample_batch, select

NONFINITE_LIMIT = 3


@dataclass(frozen=True)
class Step:
    """A finished step, as a watcher sees it."""

    number: int
    batch: Batch
    plan: Plan
    metrics: dict[str, Any]
    timing: dict[str, Any]


class Watcher(Protocol):
    """Whoever looks on: the console, or nobody."""

    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, found: dict[str, Any]) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def warned(self, message: str) -> None: ...


def train(
    run: Run,
    recipe: Recipe,
    task: Task,
    engine: Engine,
    watch: Watcher,
    interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train a run, or go on training it, to its end; gives the summary, which the folder holds.

    `interrupted` is asked after every step: on yes the run is saved and InterruptedRunError
    raised. Three steps in a row that are not finite, or an alarm that the recipe lets stop the
    run, raise RunFailedError.
    """
    if recipe.kl > 0:
        engine.keep_reference()

    def judge(label: str) -> dict[str, Any]:
        def progress(done: int, total: int) -> None:
            watch.evaluating(label, done, total)
            if interrupted() and label in ("before", "after"):  # no step is in flight
                raise InterruptedRunError(
                    f"Interrupted in the evaluation {label} training; no step is lost.",
                    f"ictcli resume {run.folder}",
                )

        found = evaluation(run, recipe, engine, task, label, progress)
        watch.evaluated(label, found)
        return found

    known = known_before(run, recipe, watch.warned)
    first = judge("before") if known is None else None  # by the weights that it begins with
    state = run.restore(engine, watch.warned)
    engine.budget.restore(state.budget)
    before = first or judge("before")
    failures: set[str] = set()
    for number in range(state.step + 1, recipe.steps + 1):
        started = time.perf_counter()
        batch = sample_batch(recipe, engine, task, number)
        report_failures(batch, failures, watch)
        sampled = time.perf_counter()
        plan = select(recipe, batch, number)
        outcome = optimise(recipe, engine, batch, plan, number)
        updated = time.perf_counter()
        forks = fork_mask(task, batch.problems, batch.rollouts, engine.tokenizer)
        metrics = measure(recipe, batch, plan, outcome, number, forks)
        state.train_s += time.perf_counter() - started
        if recipe.eval.every and number % recipe.eval.every == 0 and number < recipe.steps:
            found = judge(f"step-{number:06d}")
            metrics |= {f"eval/pass@{k}": found[f"pass@{k}"]["value"] for k in recipe.eval.k}
        timing = {
            "step": number,
            "sample_s": round(sampled - started, 4),
            "update_s": round(updated - sampled, 4),
            "peak_bytes": engine.peak_memory(),
        }
        state.budget = engine.budget.state()
        count(state, batch, plan, metrics, time.perf_counter() - started)
        run.append("metrics.jsonl", metrics)
        run.append("timings.jsonl", timing)
        if recipe.record.rollouts_every and number % recipe.record.rollouts_every == 0:
            run.record_rollouts(number, batch, plan)
        watch.stepped(Step(number, batch, plan, metrics, timing))
        stop = interrupted()
        if state.nonfinite == 0:
            due = number % recipe.checkpoint.every == 0 or number == recipe.steps
            best = is_best(recipe, state, metrics, watch, failures, due=due)
            if stop or due or best or alarm_of(recipe, state, metrics)[0] == "stop":
                run.checkpoint(engine, state, recipe.checkpoint.last)
        sound_alarms(run, recipe, state, metrics, watch)
        if stop and number < recipe.steps:
            saved = "and saved" if state.nonfinite == 0 else "but not saved: it was not finite"
            raise InterruptedRunError(
                f"Interrupted: step {number} of {recipe.steps} is finished {saved}.",
                f"ictcli resume {run.folder}",
            )
    after = judge("after")
    if state.nonfinite == 0:  # the last step's weights are judged by it too
        figures = {f"eval/pass@{k}": after[f"pass@{k}"]["value"] for k in recipe.eval.k}
        if is_best(recipe, state, figures, watch, failures, due=False):
            checkpoints.settle(run.folder, state, recipe.checkpoint.last)
    return finish(run, recipe, engine, state, before, after)


def is_best(
    recipe: Recipe,
    state: State,
    metrics: dict[str, Any],
    watch: Watcher,
    known: set[str],
    *,
    due: bool,
) -> bool:
    """Whether a step is the best so far by `checkpoint.best`; a number that is not there is warned
    of once."""
    wanted = recipe.checkpoint.best
    if wanted and due and is_dense(name := direction(wanted)[0]) and metrics.get(name) is None:
        message = f"checkpoint.best: step {state.step} has no {name}, and is not judged by it."
        if wanted not in known:
            known.add(wanted)
            watch.warned(message)
    return checkpoints.judge(state, wanted, metrics, due=due)


def report_failures(batch: Batch, known: set[str], watch: Watcher) -> None:
    """Warn of each new way in which the verifier fails."""
    reasons = [verdict.reason for verdict in batch.verdicts if verdict.failed]
    for reason in dict.fromkeys(reasons):
        if reason not in known and len(known) < 10:
            known.add(reason)
            words = reason[:1].upper() + reason[1:]
            watch.warned(f"{words} ({reasons.count(reason)} of {len(batch.verdicts)} responses)")


def count(state: State, batch: Batch, plan: Plan, metrics: dict[str, Any], seconds: float) -> None:
    """Add a finished step to the run's totals."""
    state.step = metrics["step"]
    state.wall_s += seconds
    state.tokens_sampled += int(batch.rollouts.lengths.sum())
    state.tokens_kept += int(plan.kept.sum())
    if state.first_entropy is None:
        state.first_entropy = metrics["entropy"]
    state.nonfinite = 0 if metrics["finite"] else state.nonfinite + 1
    state.skipped += not metrics["finite"]


def alarm_of(recipe: Recipe, state: State, metrics: dict[str, Any]) -> tuple[str, str]:
    """(reaction, alarm) of a finished step: off, warn or stop; collapse, explosion or none."""
    alarm = None
    if state.first_entropy and metrics["entropy"] is not None:
        alarm = entropy_alarm(state.first_entropy, metrics["entropy"])
    return (getattr(recipe.alarms, alarm), alarm) if alarm else ("off", "")


def sound_alarms(
    run: Run,
    recipe: Recipe,
    state: State,
    metrics: dict[str, Any],
    watch: Watcher,
) -> None:
    """Warn of, or stop at, collapse, explosion, and numbers that are not finite."""
    saved = run.checkpoints()
    good = f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint was saved yet"
    if state.nonfinite:
        reaction = recipe.alarms.nonfinite
        if reaction != "off":
            done = metrics["updates"]
            where = f"ended behind {done} of its updates" if done else "was skipped"
            watch.warned(f"Step {state.step} {where}: its loss or gradient is not finite.")
        if reaction == "stop" or state.nonfinite >= NONFINITE_LIMIT:
            rows = "A step" if reaction == "stop" else f"{NONFINITE_LIMIT} steps in a row"
            silent = state.skipped - state.nonfinite if reaction == "off" else 0
            more = f"; {silent} before had too, and were left out untold" if silent else ""
            raise RunFailedError(
                f"{rows} had a loss or gradient that is not finite{more}. {good}.",
                f"train again with a smaller learning rate than lr={recipe.lr:g}",
            )
        return  # nothing of a skipped step is saved
    reaction, alarm = alarm_of(recipe, state, metrics)
    if reaction == "off":
        return
    message = (
        f"Entropy {alarm}: {metrics['entropy']:.3g} nats a token at step {state.step}, "
        f"{state.first_entropy:.3g} at the first."
    )
    if reaction == "stop":
        raise RunFailedError(
            f"{message} This step is saved as {saved[-1]}.",
            f"set alarms.{alarm} to warn in {run.folder / 'recipe.toml'}, then resume the run",
        )
    watch.warned(message)
