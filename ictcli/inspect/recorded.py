"""Finding and reading recorded rollouts, of a run or of one file taken out of it, and their
tokenizer."""

import copy
from dataclasses import dataclass
from operator import index
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from ictcli.engine.models import locate, snapshot
from ictcli.errors import UnknownCodeError, UserError
from ictcli.files import check_inside, numbered, plugins
from ictcli.recipe import Recipe, check, gone
from ictcli.runs import is_run, manifest, read_rollouts
from ictcli.runs.rollouts import Batch, batch_of
from ictcli.runs.trust import read_run
from ictcli.tasks.detokenize import Decode
from ictcli.text import shell_word
from ictcli.types import BoolArray, FloatArray, Rollouts

READ = ("recipe.toml", "model/*.json", "adapter/*.json")
"""What is read of a run besides its rollouts."""
NAME = r"step-(\d+)\.safetensors"


Recordings = tuple[Path | None, dict[int, Path]]
"""A run, None for a file outside of one, and the files by step, ascending."""


@dataclass(frozen=True)
class RecordedStep:
    """One of the recorded `steps`."""

    run: Path | None
    steps: dict[int, Path]
    step: int
    recipe: Recipe
    """The run's; without a run the defaults with this batch's sizes."""
    run_method: str | None
    """None where the run's recipe is not known."""
    batch: Batch
    kept: BoolArray
    """(B, T) tokens that the step trained."""
    weights: FloatArray
    """(B, T)"""
    notes: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.steps[self.step]


def find_recordings(source: Path) -> Recordings:
    """The recorded steps of a run folder, or of a file and its neighbours. UserError where there
    are none."""
    if source.is_file():
        folder = source.parent
        run = folder.parent if folder.name == "rollouts" and is_run(folder.parent) else None
        if run:
            check_inside(run, plain=True)
        steps = dict(numbered(folder, NAME)) if run else {}
        if source.resolve() in {path.resolve() for path in steps.values()}:
            return run, steps
        return None, {_load(source)[3]: source}
    if not is_run(source):
        inside = [p.parent for deep in ("*", "*/*") for p in source.glob(f"{deep}/recipe.toml")]
        hint = f"ictcli inspect {shell_word(min(inside))}" if inside else "ictcli train RECIPE"
        raise UserError(f"{source} is not a run folder: it has no recipe.toml.", hint)
    check_inside(source, plain=True)
    steps = dict(numbered(source / "rollouts", NAME))
    if not steps:
        raise UserError(
            f"{source} has no recorded rollouts.",
            "record.rollouts_every=10 records them every 10 steps of a run",
        )
    return source, steps


def read_step(recordings: Recordings, step: int) -> RecordedStep:
    """Read a recorded step and its run's recipe. UserError for one that was not recorded, or cannot
    be read."""
    run, steps = recordings
    if step not in steps:
        raise UserError(
            f"No rollouts were recorded at step {step}.", f"recorded: {', '.join(map(str, steps))}"
        )
    batch, kept, weights, _ = _load(steps[step])
    recipe, run_method, notes = _recipe(run, batch.rollouts, step)
    return RecordedStep(run, steps, step, recipe, run_method, batch, kept, weights, notes)


def _load(path: Path) -> tuple[Batch, BoolArray, FloatArray, int]:
    try:
        arrays, description = read_rollouts(path)
        kept, step = arrays["kept"].astype(bool), index(description["step"])
        return batch_of(arrays, description), kept, arrays["weights"], step
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is no file of recorded rollouts, or a damaged one.",
            "ictcli inspect RUN/rollouts/step-....safetensors, or another step with --step",
        ) from error


def _recipe(
    run: Path | None, rollouts: Rollouts, step: int
) -> tuple[Recipe, str | None, tuple[str, ...]]:
    """The run's recipe with this batch's sizes, the run's method, and notes. Missing plugins are
    skipped; without a readable recipe the defaults stand in."""
    sizes = {"prompts": len(rollouts.prompts), "group": rollouts.group}
    notes: list[str] = []
    model = ""
    if run is not None:
        file = read_run(run)
        wrong = manifest.altered(run, *READ, f"rollouts/step-{step:06d}.safetensors")
        notes += [f"{name} {why}." for name, why in wrong.items()]
        data, model = copy.deepcopy(dict(file.data)), str(file.data.get("model", ""))
        gone.dropped(data)
        for name in plugins.listed(data):
            try:
                plugins.load(name)
            except UnknownCodeError:
                raise
            except UserError as error:
                notes.append(error.message)
        try:
            data.pop("plugins", None)
            recipe = check(data, str(file.path)).model_copy(update=sizes)
            return recipe, recipe.rule.name, tuple(notes)
        except UserError as error:
            notes.append(f"The recipe cannot be read: {error.message}")
    else:
        notes.append("This file lies outside its run")
    notes[-1] = notes[-1].rstrip(".") + ": methods choose with their default options."
    T = int(np.asarray(rollouts.lengths).max(initial=1))
    recipe = Recipe(model=model, task="", method={"name": "ict"}, steps=max(1, step), max_tokens=T)
    return recipe.model_copy(update=sizes), None, tuple(notes)


def decoder(recorded: RecordedStep, model: str | None) -> Decode | None:
    """Return what decodes with the tokenizer of `model`, by default the run's; None where it is not
    on this machine.

    A tokenizer.json is read without transformers, which takes seconds to import.
    """
    folder = _tokenizer_folder(recorded, model)
    if folder is None:
        return None
    try:
        if (folder / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
            return lambda ids: fast.decode(list(ids), skip_special_tokens=False)
        from transformers import AutoTokenizer

        slow = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return lambda ids: slow.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    except Exception:  # a tokenizer that cannot be read raises anything; ids are shown instead
        return None


def _tokenizer_folder(recorded: RecordedStep, model: str | None) -> Path | None:
    run = recorded.run
    if model is None and run and (run / "model" / "tokenizer.json").is_file():
        return run / "model"
    try:
        name = model or recorded.recipe.model
        return snapshot(locate(name).path) if name else None
    except UserError:
        if model is not None:
            raise
        return None
