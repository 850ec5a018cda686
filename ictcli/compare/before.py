"""The evaluation before training, made once of a seed: its runs begin with the same model."""

import shutil
from collections.abc import Sequence

from ictcli.compare.design import RunSpec
from ictcli.files import make_folder, new_file
from ictcli.recipe import Recipe
from ictcli.runs import manifest

FILES = ("eval/before.jsonl", "eval/before.json")
"""The second says that the first is whole."""
OF_TRAINING = {
    *("method", "keep", "warmup", "steps", "lr", "kl", "entropy", "clip", "update", "optimizer"),
    *("checkpoint", "record", "alarms", "log"),
}
"""The settings that say nothing of the model before training and of how it is judged."""


def judged_alike(recipe: Recipe) -> str:
    """Recipes of the same text share the evaluation before training."""
    return recipe.model_dump_json(exclude=OF_TRAINING)


def lend(spec: RunSpec, runs: Sequence[RunSpec]) -> None:
    """Give a run that has no evaluation before training that of another run, whose model, problems
    and draws are the same. A file that is not what the other run wrote is not lent."""
    if (spec.folder / FILES[-1]).exists():
        return
    wanted = judged_alike(spec.recipe)
    for other in runs:
        if not (other.folder / FILES[-1]).is_file() or judged_alike(other.recipe) != wanted:
            continue
        if manifest.faults(other.folder, *FILES):
            continue
        make_folder(spec.folder / "eval")
        manifest.leave(spec.folder, *FILES)
        for name in FILES:
            with new_file(spec.folder / name) as beside:
                shutil.copyfile(other.folder / name, beside)
        manifest.enter(spec.folder, *FILES)
        return
