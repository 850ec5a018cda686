"""Find the problems that a run was trained on: an evaluation should not contain them."""

from collections.abc import Sequence
from pathlib import Path

from ictcli.engine.model_files import ASKED
from ictcli.engine.models import typed_path
from ictcli.errors import UserError
from ictcli.evaluation.specs import Trained
from ictcli.files import gate
from ictcli.recipe import RecipeFile, is_of_run, load_recipe
from ictcli.recipe.generator import is_gym
from ictcli.runs import origin
from ictcli.runs.read import read_environment
from ictcli.runs.trust import read_run
from ictcli.tasks.custom import is_custom
from ictcli.tasks.prepare import described, task_of
from ictcli.tasks.split import key_of
from ictcli.types import Problem

FAULTS = (UserError, OSError, ValueError, KeyError, TypeError, AttributeError)


def run_of(folder: Path) -> Path | None:
    """Return `folder` if it is a run, or its parent if the parent is a run and `folder` is named
    like an exported model or adapter; else None."""
    if not folder.is_dir():
        return None
    is_export = folder.name.startswith(("model", "adapter"))
    runs = (folder, folder.parent) if is_export else (folder,)
    return next((run for run in runs if is_of_run(run / "recipe.toml")), None)


def is_trained(model: str) -> bool:
    """Return whether ictcli trained a base model; True too if the model's folder is missing."""
    path = typed_path(model)
    gone = path.is_absolute() and not path.is_dir()
    return gone or run_of(path) is not None or (path / ASKED).is_file()


def trained_on(file: RecipeFile) -> Trained:
    """Return the problems that a run was trained on: those of the task, if the task is the user's
    data, and of the supervised steps. `whole` is False if the base model was trained by ictcli.
    Problems that were left out as unreadable or too long are included."""
    keys, whole = set[str](), not is_trained(str(file.data.get("model", "")))
    try:
        began = read_environment(file.path.parent)
        recipe = load_recipe(file)
        task = task_of(recipe)
        before, now = origin.recorded(began), described(task, ())
        if task.sft:
            unchanged = before.get("sft") == now["sft"]
            whole = whole and unchanged
            keys |= {key_of(example.prompt) for example in task.sft} if unchanged else set()
        if not recipe.steps:
            return Trained(keys, whole)
        if is_custom(recipe.task) or is_gym(recipe.task) or recipe.data:
            by_tokens = recipe.prompt.max_tokens or "unread" in began.data.left_out
            if by_tokens or None is not before["train"] == now["train"]:
                return Trained(keys | {key_of(problem.prompt) for problem in task.train}, whole)
    except FAULTS:
        pass
    return Trained(keys)


def base_notes(model: str, heldout: Sequence[Problem]) -> list[str]:
    """Return a warning if the base model is a run that was trained on problems of `heldout`. If
    finding this out would run code that the run's recipe names, return no warning."""
    run = run_of(typed_path(model))
    if run is None:
        return []
    with gate.shut():
        try:
            keys = trained_on(read_run(run)).keys
        except FAULTS:
            return []
    if not (count := sum(key_of(problem.prompt) in keys for problem in heldout)):
        return []
    return [
        f"{run} was trained on {count:,} of the {len(heldout):,} held-out problems: scores do not "
        "measure performance on new problems."
    ]
