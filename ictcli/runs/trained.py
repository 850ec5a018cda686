"""The problems that a model was trained on, by a run and by those that made its base model."""

from collections.abc import Sequence
from pathlib import Path

from ictcli.engine.models import ASKED
from ictcli.errors import UserError
from ictcli.evaluation.specs import Trained
from ictcli.files.reading import parse_json, read_text
from ictcli.recipe import RecipeFile, load_recipe
from ictcli.recipe.generator import is_gym
from ictcli.runs.folder import is_run
from ictcli.runs.trust import read_run
from ictcli.tasks.custom import is_custom
from ictcli.tasks.prepare import task_of
from ictcli.tasks.split import digest_of, key_of
from ictcli.types import Problem

DEEPEST = 8
"""Runs that are followed, each the base of the next."""
FAULTS = (UserError, OSError, ValueError, KeyError, TypeError)


def run_of(folder: Path) -> Path | None:
    """The run that a folder is, or whose model it is; None for what is no folder, such as a name."""
    places = (folder, folder.parent) if folder.is_dir() else ()
    return next((each for each in places if is_run(each)), None)


def trained_on(file: RecipeFile) -> Trained:
    """By the run of a recipe, and by the runs that made its base model."""
    keys, whole = set[str](), True
    for _ in range(DEEPEST):
        own = _own(file)
        keys |= own.keys
        whole &= own.whole
        base = Path(str(file.data.get("model", ""))).expanduser()
        run = run_of(base)
        if run is None:  # an export does not say what it was trained on
            return Trained(frozenset(keys), whole and not (base / ASKED).is_file())
        try:
            file = read_run(run)
        except FAULTS:
            break
    return Trained(frozenset(keys), whole=False)


def _own(file: RecipeFile) -> Trained:
    """By a run alone: its task where that is data of one's own, and its supervised steps. Problems
    left out by the tokenizer, as unread or longer than `prompt.max_tokens`, are among them."""
    keys, whole = set[str](), True
    try:
        recipe = load_recipe(file)
        task = task_of(recipe)
        recorded = parse_json(read_text(file.path.with_name("environment.json")))["data"]
        if task.sft and recorded["sft"]["sha256"] == digest_of(task.sft, solutions=True):
            keys |= {key_of(example.prompt) for example in task.sft}
        elif task.sft:
            whole = False
        if recipe.steps and (is_custom(recipe.task) or is_gym(recipe.task) or recipe.data):
            by_tokens = recipe.prompt.max_tokens or "unread" in recorded["left_out"]
            if by_tokens or recorded["train"]["sha256"] == digest_of(task.train):
                return Trained(keys | {key_of(each.prompt) for each in task.train}, whole)
    except FAULTS:
        return Trained(keys, whole=False)
    return Trained(keys, whole and not recipe.steps)


def base_notes(model: str, heldout: Sequence[Problem]) -> list[str]:
    """A sentence if the base model was trained on problems that are held out."""
    run = run_of(Path(model).expanduser())
    if run is None:
        return []
    try:
        known = trained_on(read_run(run)).keys
    except FAULTS:
        return []
    if not (count := sum(key_of(problem.prompt) in known for problem in heldout)):
        return []
    return [
        f"{count:,} of {len(heldout):,} held-out problems were trained on by {run}, which made "
        "the model: figures before and after do not measure what it does on others."
    ]
