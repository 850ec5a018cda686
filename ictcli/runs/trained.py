"""The problems that a run's model was trained on, and whether its base model is a run's too."""

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
    """Return the run that a folder is, or whose model it is; None if there is no such folder."""
    if not folder.is_dir():
        return None
    is_export = folder.name.startswith(("model", "adapter"))
    places = (folder, folder.parent) if is_export else (folder,)
    return next((place for place in places if is_of_run(place / "recipe.toml")), None)


def is_trained(model: str) -> bool:
    """Return whether ictcli made a base model by training, or its folder is not there to tell."""
    path = typed_path(model)
    gone = path.is_absolute() and not path.is_dir()
    return gone or run_of(path) is not None or (path / ASKED).is_file()


def trained_on(file: RecipeFile) -> Trained:
    """Return what the run of a recipe was trained on: its task if that is the user's data, and its
    supervised steps; not all where its base model is a run's. Problems left out by the tokenizer,
    as unread or longer than `prompt.max_tokens`, are among them."""
    keys, whole = set[str](), not is_trained(str(file.data.get("model", "")))
    try:
        began = read_environment(file.path.parent)
        recipe = load_recipe(file)
        task = task_of(recipe)
        before, now = origin.recorded(began), described(task, ())
        if task.sft:
            known = before.get("sft") == now["sft"]
            whole = whole and known
            keys |= {key_of(example.prompt) for example in task.sft} if known else set()
        if not recipe.steps:
            return Trained(keys, whole)
        if is_custom(recipe.task) or is_gym(recipe.task) or recipe.data:
            by_tokens = recipe.prompt.max_tokens or "unread" in began.data.left_out
            if by_tokens or None is not before["train"] == now["train"]:
                return Trained(keys | {key_of(each.prompt) for each in task.train}, whole)
    except FAULTS:
        pass
    return Trained(keys)


def base_notes(model: str, heldout: Sequence[Problem]) -> list[str]:
    """Return a sentence if the base model is a run's that was trained on held-out problems. Code
    that the run's recipe names is not run: then nothing is said."""
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
        f"{run} was trained on {count:,} of the {len(heldout):,} held-out problems: figures do not "
        "measure what it does on new problems."
    ]
