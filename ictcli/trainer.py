"""The loop: prompts, rollouts, rewards, advantages, kept tokens, weights, update, metrics.

Everything a step decides is a function of (recipe, step, weights), so a run killed at any moment
and resumed from its last checkpoint repeats what it lost, to the bit. `ictcli.step` has the parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ictcli.algorithm.alarms import entropy_alarm
from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.evaluation.evaluate import evaluate
from ictcli.files import new_folder
from ictcli.recipe import Recipe
from ictcli.runs import Run, State
from ictcli.seeds import seed_of
from ictcli.step import Batch, Plan, measure, optimise, sample_batch, sampling_of, select
from ictcli.tasks import Task, find_task

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
    engine: Engine,
    watch: Watcher,
    interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train a run, or go on training it, to its end; gives the summary, which the folder holds.

    `interrupted` is asked after every step: on yes the run is saved and InterruptedRunError
    raised. Three steps in a row that are not finite, or an alarm that the recipe lets stop the
    run, raise RunFailedError.
    """
    task = find_task(recipe.task, recipe.reward)
    if recipe.kl > 0:
        engine.keep_reference()
    state = run.restore(engine)
    before = evaluation(run, recipe, engine, task, watch, "before")
    for number in range(state.step + 1, recipe.steps + 1):
        started = time.perf_counter()
        batch = sample_batch(recipe, engine, task, number)
        sampled = time.perf_counter()
        plan = select(recipe, batch, number)
        outcome = optimise(recipe, engine, batch, plan, number)
        updated = time.perf_counter()
        metrics = measure(recipe, task, batch, plan, outcome, number)
        if recipe.eval.every and number % recipe.eval.every == 0 and number < recipe.steps:
            found = evaluation(run, recipe, engine, task, watch, f"step-{number:06d}")
            metrics |= {f"eval/pass@{k}": found[f"pass@{k}"]["value"] for k in recipe.eval.k}
        timing = {
            "step": number,
            "sample_s": round(sampled - started, 4),
            "update_s": round(updated - sampled, 4),
            "peak_bytes": engine.peak_memory(),
        }
        count(state, batch, plan, metrics, time.perf_counter() - started)
        run.append("metrics.jsonl", metrics)
        run.append("timings.jsonl", timing)
        if recipe.record.rollouts_every and number % recipe.record.rollouts_every == 0:
            run.record_rollouts(number, batch, plan)
        watch.stepped(Step(number, batch, plan, metrics, timing))
        sound_alarms(run, recipe, state, metrics, watch)
        stop = interrupted()
        if state.nonfinite == 0 and (
            stop or number % recipe.checkpoint.every == 0 or number == recipe.steps
        ):
            run.checkpoint(engine, state, recipe.checkpoint.last)
        if stop and number < recipe.steps:
            saved = "and saved" if state.nonfinite == 0 else "but not saved: it was not finite"
            raise InterruptedRunError(
                f"Interrupted: step {number} of {recipe.steps} is finished {saved}.",
                f"ictcli resume {run.folder}",
            )
    after = evaluation(run, recipe, engine, task, watch, "after")
    return finish(run, recipe, engine, state, before, after)


def evaluation(
    run: Run, recipe: Recipe, engine: Engine, task: Task, watch: Watcher, label: str
) -> dict[str, Any]:
    """Evaluate on held-out problems, always with the same seed, so that evaluations of a run and
    of its rivals are paired. What stands in the folder from before the first step is used again."""
    name = f"eval/{label}.json"
    known = run.read(name) if label == "before" else None
    if known is None:
        problems = task.heldout(recipe.eval.problems)
        found = evaluate(
            engine,
            task.name,
            problems,
            task.domain,
            sampling_of(recipe, engine, recipe.eval.temperature),
            recipe.prompt,
            n=recipe.eval.n,
            ks=recipe.eval.k,
            seed=seed_of(recipe.seed, "eval"),
            samples=run.folder / "eval" / f"{label}.jsonl",
            progress=lambda done, total: watch.evaluating(label, done, total),
        )
        known = found.json()
        run.write(name, known)
    watch.evaluated(label, known)
    return known


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


def sound_alarms(
    run: Run, recipe: Recipe, state: State, metrics: dict[str, Any], watch: Watcher
) -> None:
    """Warn of, or stop at, collapse, explosion, and numbers that are not finite."""
    saved = run.checkpoints()
    good = f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint was saved yet"
    if state.nonfinite:
        watch.warned(f"Step {state.step} was skipped: its loss or gradient is not finite.")
        if state.nonfinite >= NONFINITE_LIMIT:
            raise RunFailedError(
                f"{NONFINITE_LIMIT} steps in a row had a loss or gradient that is not finite. "
                f"{good}.",
                f"train again with a smaller learning rate than lr={recipe.lr:g}",
            )
    alarm = None
    if state.first_entropy and metrics["entropy"] is not None:
        alarm = entropy_alarm(state.first_entropy, metrics["entropy"])
    reaction = getattr(recipe.alarms, alarm) if alarm else "off"
    if reaction == "off":
        return
    message = (
        f"Entropy {alarm}: {metrics['entropy']:.3g} nats a token at step {state.step}, "
        f"{state.first_entropy:.3g} at the first."
    )
    if reaction == "stop":
        raise RunFailedError(f"{message} {good}.", f"alarms.{alarm}=warn goes on regardless")
    watch.warned(message)


def finish(
    run: Run,
    recipe: Recipe,
    engine: Engine,
    state: State,
    before: dict[str, Any],
    after: dict[str, Any],
) -> dict[str, Any]:
    """Export the model and write the summary."""
    with new_folder(run.folder / "model") as folder:
        engine.export(folder)
    summary = {
        "method": recipe.rule.name,
        "seed": recipe.seed,
        "steps": state.step,
        "before": {f"pass@{k}": before[f"pass@{k}"] for k in recipe.eval.k},
        "after": {f"pass@{k}": after[f"pass@{k}"] for k in recipe.eval.k},
        "problems": after["problems"],
        "samples_per_problem": after["n"],
        "wall_s": round(state.wall_s + before["seconds"] + after["seconds"], 2),
        "tokens_sampled": state.tokens_sampled,
        "tokens_kept_share": state.tokens_kept / max(state.tokens_sampled, 1),
        "steps_skipped": state.skipped,
        "peak_bytes": engine.peak_memory(),
        "model": str(run.folder / "model"),
    }
    run.write("summary.json", summary)
    return summary
