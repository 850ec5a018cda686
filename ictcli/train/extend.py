"""More steps for a run, finished or not: `ictcli resume RUN steps=N`.

Each change below leaves a run that resumes or finishes as it is, so a kill between two of them
loses nothing, and the same command goes on from there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from ictcli.errors import UserError
from ictcli.evaluation.record import Evaluation
from ictcli.files import drop, write_text
from ictcli.recipe import Recipe
from ictcli.runs import Run, manifest
from ictcli.runs.read import read_record
from ictcli.runs.records import Environment, Summary
from ictcli.text import shell_word
from ictcli.train.finish import export_folder
from ictcli.train.loop import with_passes


def check_keys(run: Path, overrides: Sequence[str]) -> None:
    """UserError for a setting other than steps."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key != "steps":
            recipe = shell_word(run / "recipe.toml")
            raise UserError(
                f"A run keeps the recipe it began with: {key} cannot change.",
                "resume takes steps=N alone; for a run of its own: "
                f"ictcli train {recipe} {shell_word(override)}",
            )


def extend(run: Run, before: Recipe, recipe: Recipe, say: Callable[[str], None]) -> None:
    """Give a run `before.steps` the steps of `recipe`, which differs in nothing else. UserError
    where they are fewer, or no checkpoint is left to go on from."""
    if recipe.steps == before.steps:
        return
    if recipe.steps < before.steps:
        raise UserError(
            f"{run.folder} is a run of {before.steps} steps, and steps={recipe.steps} are fewer.",
            f"ictcli train {shell_word(run.folder / 'recipe.toml')} steps={recipe.steps}",
        )
    if run.metrics() and not run.checkpoints():
        raise UserError(
            f"{run.folder} has no checkpoint to train on from.",
            f"ictcli train {shell_word(run.folder / 'recipe.toml')} steps={recipe.steps}",
        )
    if note := schedule_note(before, recipe):
        say(note)
    if environment := run.read("environment.json", Environment):
        steps = list(dict.fromkeys([*environment.extended_from, before.steps]))
        run.write("environment.json", environment.model_copy(update={"extended_from": steps}))
    if run.read("summary.json", Summary):
        manifest.leave(run.folder, "summary.json")
        (run.folder / "summary.json").unlink()
    _keep_evaluation(run, before)
    exported = export_folder(run.folder, before)
    _rename(run, exported.name, f"{exported.name}-step-{before.steps:06d}")
    run.write_steps(recipe.steps)


def schedule_note(before: Recipe, recipe: Recipe) -> str:
    """A sentence if the learning rate depends on how many steps the run has; empty if not."""
    if all(recipe.lr_at(step) == before.lr_at(step) for step in range(1, before.steps + 1)):
        return ""
    step = before.steps + 1
    return (
        f"optimizer.decay = {recipe.optimizer.decay!r} depends on steps: the rate was "
        f"{before.lr_at(before.steps):.3g} at step {before.steps} and is {recipe.lr_at(step):.3g} "
        f"at step {step}. This is not the run that {recipe.steps} steps from the start would be."
    )


def _keep_evaluation(run: Run, before: Recipe) -> None:
    """Make the evaluation after training that of its step, as a longer run has it."""
    label = f"step-{before.steps:06d}"
    for path in sorted((run.folder / "eval").glob("after*.json*"), reverse=True):  # .json last
        _rename(run, f"eval/{path.name}", f"eval/{path.name.replace('after', label, 1)}")
    evaluation = read_record(run.folder / "eval" / f"{label}.json", Evaluation, strict=False)
    lines = run.metrics()
    is_due = before.eval.every and before.steps % before.eval.every == 0
    if evaluation and is_due and lines and lines[-1].step == before.steps:
        lines[-1] = with_passes(lines[-1], before.eval.k, evaluation)
        manifest.leave(run.folder, "metrics.jsonl")
        write_text(run.folder / "metrics.jsonl", "".join(line.to_line() for line in lines))


def _rename(run: Run, name: str, new: str) -> None:
    """Rename a file or folder of the run, if it is there."""
    old, path = run.folder / name, run.folder / new
    if old.exists():
        manifest.leave(run.folder, name, new)
        if path.is_dir():
            drop(path)
        old.replace(path)
        manifest.enter(run.folder, new)
