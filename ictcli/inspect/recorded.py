"""Finding and reading the recorded rollouts of a run, and the tokenizer of its model."""

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
"""Files of a run that are read in addition to its rollouts."""
NAME = r"step-(\d+)\.safetensors"


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step of a run; `steps` are the files of all recorded steps, by number."""

    run: Path
    steps: dict[int, Path]
    step: int
    recipe: Recipe
    """The run's recipe with the sizes of this batch; default settings if it cannot be read."""
    run_method: str | None
    """The run's method; None if the run's recipe cannot be read."""
    batch: Batch
    kept: BoolArray
    """(B, T): True for tokens that were trained."""
    weights: FloatArray
    """(B, T): the tokens' weights in training."""
    notes: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.steps[self.step]


def find_recordings(source: Path) -> dict[int, Path]:
    """Return the files of a run's recorded steps, by step, ascending. UserError if none."""
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
    """Read a recorded step of a run. UserError if it was not recorded or cannot be read."""
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
            f"{path} is not a file of recorded rollouts, or is damaged.", "try another --step"
        ) from error
    recipe, run_method, notes = _recipe(run, batch.rollouts, step)
    return RecordedStep(run, steps, step, recipe, run_method, batch, kept, weights, notes)


def _recipe(run: Path, rollouts: Rollouts, step: int) -> tuple[Recipe, str | None, tuple[str, ...]]:
    """Return the run's recipe with the sizes of this batch, the run's method, and notes. Missing
    plugins are skipped. If the recipe cannot be read, return default settings, None and a note."""
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
        notes.append(f"The recipe cannot be read, so methods use their defaults: {why}.")
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
    """Return a function that decodes tokens with the tokenizer.json of `model`, by default the
    run's model; None if that model is not on this machine or cannot be read."""
    from tokenizers import Tokenizer  # without transformers, which takes seconds to import

    folder = _tokenizer_folder(recorded, model)
    try:
        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)
    except Exception:  # bad files raise anything; callers show token ids instead
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
