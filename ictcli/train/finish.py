"""Finish a run, with its exported model and summary.json; extend a run to more steps."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.evaluation.record import Evaluation, pass_differences, unanswered
from ictcli.files import drop, gate, new_folder, write_text
from ictcli.recipe import Recipe
from ictcli.recipe.metrics import shown_in
from ictcli.runs import FORMAT, Run, checkpoints, manifest
from ictcli.runs.checkpoints import State
from ictcli.runs.folder import SFT, STEPS
from ictcli.runs.model import engine_at
from ictcli.runs.read import read_lines, read_record
from ictcli.runs.records import (
    Best,
    Environment,
    SftMetrics,
    SftSummary,
    StepMetrics,
    Summary,
    Unlearned,
)
from ictcli.text import command
from ictcli.train.evaluations import known_evaluation, with_passes


def kept_tokens(metrics: Sequence[StepMetrics], recipe: Recipe) -> dict[str, float]:
    """Return statistics of the trained tokens (see `dynamics`): means over the steps after the
    dense warm-up, or over all steps if there are none after it. `high_low_ratio` is the ratio over
    the trained tokens of all these steps together."""
    dense = recipe.dense_steps if recipe.dense_steps < recipe.steps else 0
    steps = [line for line in metrics if line.step > dense]
    means: dict[str, float] = {}
    for name in shown_in("summary"):
        values = [value for line in steps if (value := line.value(name)) is not None]
        if values:
            means[name] = float(np.mean(values))
    if "high_low_ratio" in means:
        ratios = [line.high_low_ratio for line in steps]  # None: no low-entropy token was kept
        kept = [(line.share_kept or 0.0) * (line.length or 0.0) for line in steps]
        low = sum(n / (1 + r) for n, r in zip(kept, ratios, strict=True) if r is not None)
        if low:
            means["high_low_ratio"] = (sum(kept) - low) / low
    return means


def export_folder(run: Path, recipe: Recipe) -> Path:
    """Return the folder of a finished run's model, or of its adapters if it trained adapters."""
    return run / ("adapter" if recipe.adapters else "model")


def export(run: Run, recipe: Recipe, engine: Engine) -> Path:
    """Write the model or the adapters, and return their folder."""
    path = export_folder(run.folder, recipe)
    with manifest.rewriting(run.folder, path.name), new_folder(path) as folder:
        if recipe.adapters:
            engine.export_adapter(folder)
        else:
            engine.export(folder)
    gate.copied(path)
    return path


def finished(run: Run, recipe: Recipe, say: Callable[[str], None]) -> Summary | None:
    """Return the summary of a finished run, with the present path of its model; None if the run is
    not finished. If the model or adapter is missing, export it again from the last checkpoint.
    UserError if the summary is damaged, or that checkpoint is missing too."""
    summary = run.read("summary.json", Summary)
    if summary is None:
        return None
    path = export_folder(run.folder, recipe)
    if not path.is_dir():
        checkpoint = checkpoints.pick(run.folder, str(summary.steps))
        say(f"{path} is missing: it is exported again from {checkpoint}.")
        engine = engine_at(run.folder, run.recipe, checkpoint, recipe.engine)
        export(run, recipe, engine)
    return summary.model_copy(update={"model": str(path)})


def finish(
    run: Run,
    recipe: Recipe,
    engine: Engine,
    state: State,
    before: Evaluation,
    after: Evaluation,
    unlearned: Unlearned | None = None,
    examples: int = 0,
) -> Summary:
    """Export the model or the adapters, and write the summary. `unlearned` says why if nothing was
    learned; `examples` is the number of supervised examples."""
    path = export(run, recipe, engine)
    figures = [f"pass@{k}" for k in recipe.eval.k]
    figures += ["greedy"] * ("greedy" in before.figures and "greedy" in after.figures)
    summary = Summary(
        format=FORMAT,
        task=recipe.task,
        method=recipe.rule.name,
        seed=recipe.seed,
        steps=state.step,
        before={name: before.figures[name] for name in figures},
        after={name: after.figures[name] for name in figures},
        change=pass_differences(after, before),
        unanswered=unanswered(before, after),
        problems=after.problems,
        samples_per_problem=after.n,
        wall_s=round(state.wall_s, 2),
        cpu_s=round(state.cpu_s, 2),
        train_s=round(state.train_s, 2),
        rollouts_sampled=state.step * recipe.prompts * recipe.group + state.redrawn,
        tokens_sampled=state.tokens_sampled,
        tokens_kept_share=state.tokens_kept / max(state.tokens_sampled, 1),
        kept_tokens=kept_tokens(run.metrics(), recipe),
        steps_skipped=state.skipped,
        peak_bytes=engine.peak_memory(),
        model=str(path),
        unlearned=unlearned,
    )
    if recipe.checkpoint.best:
        best = Best(metric=state.best_metric, step=state.best_step, value=state.best_value)
        summary = summary.model_copy(update={"best": best})
    if lines := read_lines(run.folder / SFT, SftMetrics):
        sft = SftSummary(
            steps=len(lines),
            examples=min(examples, recipe.sft.steps * recipe.sft.batch),
            tokens=sum(line.tokens for line in lines),
            first_loss=lines[0].loss,
            last_loss=lines[-1].loss,
        )
        if between := known_evaluation(run, recipe, "step-000000"):
            reached = {name: score for name, score in between.figures.items() if name in figures}
            parts = {
                "reached": reached,
                "change": pass_differences(between, before),
                "change_after": pass_differences(after, between),
            }
            sft = sft.model_copy(update=parts)
        summary = summary.model_copy(update={"sft": sft})
    manifest.enter(run.folder, *STEPS, SFT)
    run.write("summary.json", summary)
    return summary


def check_keys(run: Path, overrides: Sequence[str]) -> None:
    """Raise UserError if an override sets another key than `steps`."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key != "steps":
            raise UserError(
                f"A run keeps the recipe it began with: {key} cannot change.",
                "resume only takes steps=N; to train another run: "
                + command("train", run / "recipe.toml", override),
            )


def check_longer(run: Run, before: Recipe, recipe: Recipe) -> None:
    """Raise UserError if `recipe` has fewer steps than `before`, the run's recipe, or has more and
    the run has no checkpoint to continue from."""
    anew = command("train", run.folder / "recipe.toml", f"steps={recipe.steps}")
    if recipe.steps < before.steps:
        raise UserError(
            f"{run.folder} has {before.steps} steps, and steps={recipe.steps} is fewer.", anew
        )
    trained = run.metrics() or run.read("summary.json", Summary)
    if recipe.steps > before.steps and trained and not run.checkpoints():
        raise UserError(f"{run.folder} has no checkpoint to continue from.", anew)


def extend(run: Run, before: Recipe, steps: int) -> None:
    """Extend a run, whose recipe is `before`, to more steps (`ictcli resume RUN steps=N`). The run
    can be resumed after each of the changes, so a kill between two of them loses nothing."""
    if environment := run.read("environment.json", Environment):
        earlier = list(dict.fromkeys([*environment.extended_from, before.steps]))
        run.write("environment.json", environment.model_copy(update={"extended_from": earlier}))
    if run.read("summary.json", Summary):
        manifest.leave(run.folder, "summary.json")
        (run.folder / "summary.json").unlink()
    _keep_evaluation(run, before)
    exported = export_folder(run.folder, before)
    _rename(run, exported.name, f"{exported.name}-step-{before.steps:06d}")
    run.write_recipe(before, steps)


def schedule_note(before: Recipe, recipe: Recipe) -> str:
    """Return a sentence if the learning rate depends on the number of steps, else ""."""
    if all(recipe.lr_at(step) == before.lr_at(step) for step in range(1, before.steps + 1)):
        return ""
    step = before.steps + 1
    return (
        f"optimizer.decay = {recipe.optimizer.decay!r} depends on steps: the learning rate was "
        f"{before.lr_at(before.steps):.3g} at step {before.steps} and is {recipe.lr_at(step):.3g} "
        f"at step {step}. A new run of {recipe.steps} steps would have had other learning rates."
    )


def _keep_evaluation(run: Run, before: Recipe) -> None:
    """Rename the evaluation "after" to "step-N", as a longer run would have named it at step N."""
    label = f"step-{before.steps:06d}"
    for path in sorted((run.folder / "eval").glob("after*.json*"), reverse=True):  # samples first
        _rename(run, f"eval/{path.name}", f"eval/{path.name.replace('after', label, 1)}")
    evaluation = read_record(run.folder / "eval" / f"{label}.json", Evaluation, strict=False)
    lines = run.metrics()
    is_due = before.eval.every and before.steps % before.eval.every == 0
    if evaluation and is_due and lines and lines[-1].step == before.steps:
        lines[-1] = with_passes(lines[-1], before.eval.k, evaluation)
        manifest.leave(run.folder, "metrics.jsonl")
        write_text(run.folder / "metrics.jsonl", "".join(line.to_line() for line in lines))


def _rename(run: Run, name: str, new: str) -> None:
    old, path = run.folder / name, run.folder / new
    if old.exists():
        manifest.leave(run.folder, name, new)
        if path.is_dir():
            drop(path)
        old.replace(path)
        manifest.enter(run.folder, new)
