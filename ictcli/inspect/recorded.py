"""Finding and reading recorded rollouts of a run, and their tokenizer."""

import copy
from dataclasses import dataclass
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
from ictcli.text import command
from ictcli.types import BoolArray, FloatArray, Rollouts

READ = ("recipe.toml", "model/*.json", "adapter/*.json")
"""Files of a run that are read besides its rollouts."""
NAME = r"step-(\d+)\.safetensors"


@dataclass(frozen=True)
class RecordedStep:
    """One of the recorded `steps`."""

    run: Path
    steps: dict[int, Path]
    step: int
    recipe: Recipe
    """The run's, with this batch's sizes; the defaults where it cannot be read."""
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


def find_recordings(source: Path) -> dict[int, Path]:
    """Return the files of a run's recorded steps by step, ascending. UserError where there are
    none."""
    if not is_run(source):
        inside = [p.parent for deep in ("*", "*/*") for p in source.glob(f"{deep}/recipe.toml")]
        hint = command("inspect", min(inside)) if inside else "ictcli train RECIPE"
        raise UserError(f"{source} is not a run folder: it has no recipe.toml.", hint)
    check_inside(source, plain=True)
    steps = dict(numbered(source / "rollouts", NAME))
    if not steps:
        raise UserError(
            f"{source} has no recorded rollouts.",
            "record.rollouts_every=10 records them every 10 steps of a run",
        )
    return steps


def read_step(run: Path, steps: dict[int, Path], step: int) -> RecordedStep:
    """Read one of the recorded steps of a run, and its recipe. UserError for one that was not
    recorded, or cannot be read."""
    if step not in steps:
        raise UserError(
            f"No rollouts were recorded at step {step}.", f"recorded: {', '.join(map(str, steps))}"
        )
    path = steps[step]
    try:
        arrays, description = read_rollouts(path)
        kept, batch = arrays["kept"].astype(bool), batch_of(arrays, description)
        weights = arrays["weights"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a file of recorded rollouts, or is damaged.", "--step takes another"
        ) from error
    recipe, run_method, notes = _recipe(run, batch.rollouts, step)
    return RecordedStep(run, steps, step, recipe, run_method, batch, kept, weights, notes)


def _recipe(run: Path, rollouts: Rollouts, step: int) -> tuple[Recipe, str | None, tuple[str, ...]]:
    """Return the run's recipe with this batch's sizes, the run's method, and notes. Missing plugins
    are skipped; without a readable recipe, its defaults."""
    sizes = {"prompts": len(rollouts.prompts), "group": rollouts.group}
    file = read_run(run)
    wrong = manifest.altered(run, *READ, f"rollouts/step-{step:06d}.safetensors")
    notes = [f"{name} {why}." for name, why in wrong.items()]
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
        why = error.message.rstrip(".")
        notes.append(f"The recipe cannot be read: {why}: methods choose with their defaults.")
    T = int(np.asarray(rollouts.lengths).max(initial=1))
    recipe = Recipe(
        model=model or "unknown",
        task="unknown",
        method={"name": "ict"},
        steps=max(1, step),
        max_tokens=T,
    )
    return recipe.model_copy(update=sizes), None, tuple(notes)


def decoder(recorded: RecordedStep, model: str | None) -> Decode | None:
    """Return what decodes with the tokenizer.json of `model`, by default the run's; None where it
    is not on this machine."""
    from tokenizers import Tokenizer  # without transformers, which takes seconds to import

    folder = _tokenizer_folder(recorded, model)
    try:
        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)
    except Exception:  # a tokenizer that cannot be read raises anything; ids are shown instead
        return None


def _tokenizer_folder(recorded: RecordedStep, model: str | None) -> Path | None:
    run = recorded.run
    if model is None and (run / "model" / "tokenizer.json").is_file():
        return run / "model"
    try:
        name = model or recorded.recipe.model
        return snapshot(locate(name).path) if name else None
    except UserError:
        if model is not None:
            raise
        return None
