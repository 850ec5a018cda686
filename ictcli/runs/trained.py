"""The problems that a model was trained on, by a run and by those that made its base model. Code
that a base model's run names is not run: what that was trained on is not known then."""

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
from ictcli.tasks.hub import files_alone
from ictcli.tasks.prepare import described, task_of
from ictcli.tasks.split import key_of
from ictcli.types import Problem

FAULTS = (UserError, OSError, ValueError, KeyError, TypeError, AttributeError)


def run_of(folder: Path) -> Path | None:
    """Return the run that a folder is, or whose model it is; None for a name that is no folder."""
    if not folder.is_dir():
        return None
    made = folder.name.startswith(("model", "adapter"))
    places = (folder, folder.parent) if made else (folder,)
    return next((place for place in places if is_of_run(place / "recipe.toml")), None)


def is_trained(model: str) -> bool:
    """Return whether ictcli made a base model by training, or its folder is not there to tell."""
    path = typed_path(model)
    gone = path.is_absolute() and not path.is_dir()
    return gone or run_of(path) is not None or (path / ASKED).is_file()


def trained_on(file: RecipeFile, seen: frozenset[Path] = frozenset()) -> Trained:
    """Return what the run of a recipe was trained on, and the runs that made its base model. `seen`
    are runs that came before."""
    keys, whole = _keys(file)
    base = _of_base(str(file.data.get("model", "")), seen | {file.path})
    return Trained(keys | base.keys, whole and base.whole)


def of_model(model: str) -> Trained:
    """Return what the run that a model's folder is of, and those before it, were trained on, as far
    as that is known without the hub. Of a model that is of no run nothing is known."""
    if run_of(typed_path(model)) is None:
        return Trained()
    with files_alone():
        return _of_base(model, frozenset())


def _of_base(model: str, seen: frozenset[Path]) -> Trained:
    run = run_of(typed_path(model))
    if run is None:
        return Trained(whole=not is_trained(model))
    with gate.shut():
        try:
            file = read_run(run)
        except FAULTS:
            return Trained()
        return Trained() if file.path in seen else trained_on(file, seen)


def _keys(file: RecipeFile) -> tuple[set[str], bool]:
    """Return the problems of a run alone, and whether these are all: its task where that is data of
    one's own, and its supervised steps. Problems left out by the tokenizer, as unread or longer
    than `prompt.max_tokens`, are among them."""
    keys, whole = set[str](), True
    try:
        began = read_environment(file.path.parent)
        recipe = load_recipe(file)
        task = task_of(recipe)
        before, now = origin.recorded(began), described(task, ())
        if task.sft:
            whole = before.get("sft") == now["sft"]
            keys |= {key_of(example.prompt) for example in task.sft} if whole else set()
        if not recipe.steps:
            return keys, whole
        if is_custom(recipe.task) or is_gym(recipe.task) or recipe.data:
            by_tokens = recipe.prompt.max_tokens or "unread" in began.data.left_out
            if by_tokens or None is not before["train"] == now["train"]:
                return keys | {key_of(problem.prompt) for problem in task.train}, whole
    except FAULTS:
        pass
    return keys, False


def base_notes(model: str, heldout: Sequence[Problem]) -> list[str]:
    """Return a sentence if the base model was trained on problems that are held out."""
    keys = of_model(model).keys
    if not (count := sum(key_of(problem.prompt) in keys for problem in heldout)):
        return []
    return [
        f"The model was trained on {count:,} of the {len(heldout):,} held-out problems, by "
        f"{model} or before: figures do not measure what it does on others."
    ]
