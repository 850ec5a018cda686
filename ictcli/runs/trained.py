"""The problems that a model was trained on, by a run and by those that made its base model. Code
that a base model's run names is not run: what that was trained on is not known then."""

from collections.abc import Sequence
from pathlib import Path

from ictcli.engine.model_files import ASKED
from ictcli.engine.models import typed_path
from ictcli.errors import UserError
from ictcli.evaluation.specs import Trained
from ictcli.files import gate
from ictcli.files.reading import parse_json, read_text
from ictcli.recipe import RecipeFile, is_of_run, load_recipe
from ictcli.recipe.generator import is_gym
from ictcli.runs.trust import read_run
from ictcli.tasks.custom import is_custom
from ictcli.tasks.hub import files_alone
from ictcli.tasks.prepare import task_of
from ictcli.tasks.split import digest_of, key_of
from ictcli.types import Problem

FAULTS = (UserError, OSError, ValueError, KeyError, TypeError, AttributeError)


def run_of(folder: Path) -> Path | None:
    """The run that a folder is, or whose model it is; None for a name that is no folder."""
    if not folder.is_dir():
        return None
    made = folder.name.startswith(("model", "adapter"))
    places = (folder, folder.parent) if made else (folder,)
    return next((each for each in places if is_of_run(each / "recipe.toml")), None)


def is_trained(model: str) -> bool:
    """Whether ictcli made a base model by training, or its folder is not there to tell."""
    path = typed_path(model)
    gone = path.is_absolute() and not path.is_dir()
    return gone or run_of(path) is not None or (path / ASKED).is_file()


def trained_on(file: RecipeFile, *, reinforced: bool = True) -> Trained:
    """By the run of a recipe, and by the runs that made its base model. `reinforced`: whether its
    weights are later than supervised steps."""
    own = _own(file, reinforced=reinforced)
    base = _of_model(str(file.data.get("model", "")), {file.path})
    return Trained(own.keys | base.keys, own.whole and base.whole)


def of_model(model: str) -> Trained:
    """By the run that a model's folder is of, and by those before it, as far as that is known
    without the hub. Of a model that is of no run nothing is known."""
    if run_of(typed_path(model)) is None:
        return Trained()
    with files_alone():
        return _of_model(model, set())


def _of_model(model: str, seen: set[Path]) -> Trained:
    run = run_of(typed_path(model))
    if run is None:
        return Trained(whole=not is_trained(model))
    with gate.shut():
        try:
            file = read_run(run)
        except FAULTS:
            return Trained()
        if file.path in seen:
            return Trained()
        own = _own(file)
    base = _of_model(str(file.data.get("model", "")), {*seen, file.path})
    return Trained(own.keys | base.keys, own.whole and base.whole)


def _own(file: RecipeFile, *, reinforced: bool = True) -> Trained:
    """By a run alone: its task where that is data of one's own, and its supervised steps. Problems
    left out by the tokenizer, as unread or longer than `prompt.max_tokens`, are among them."""
    keys, whole = set[str](), True
    try:
        recorded = parse_json(read_text(file.path.with_name("environment.json")))["data"]
        recipe = load_recipe(file)
        task = task_of(recipe)
        shown = recorded.get("sft", {}).get("sha256")
        if task.sft and shown == digest_of(task.sft, solutions=True):
            keys |= {key_of(example.prompt) for example in task.sft}
        elif task.sft:
            whole = False
        if not recipe.steps or not reinforced:
            return Trained(keys, whole)
        if is_custom(recipe.task) or is_gym(recipe.task) or recipe.data:
            by_tokens = recipe.prompt.max_tokens or "unread" in recorded["left_out"]
            if by_tokens or recorded["train"]["sha256"] == digest_of(task.train):
                return Trained(keys | {key_of(each.prompt) for each in task.train}, whole)
    except FAULTS:
        pass
    return Trained(keys)


def base_notes(model: str, heldout: Sequence[Problem]) -> list[str]:
    """A sentence if the base model was trained on problems that are held out."""
    known = of_model(model).keys
    if not (count := sum(key_of(problem.prompt) in known for problem in heldout)):
        return []
    return [
        f"The model was trained on {count:,} of the {len(heldout):,} held-out problems, by "
        f"{model} or before: figures do not measure what it does on others."
    ]
