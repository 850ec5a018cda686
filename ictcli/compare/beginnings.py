"""The evaluation before training, made once for all runs of a comparison that begin alike."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from ictcli.compare.design import RunSpec
from ictcli.evaluation.record import Evaluation
from ictcli.files import new_file
from ictcli.files.reading import read_bytes
from ictcli.recipe import Recipe
from ictcli.runs import manifest
from ictcli.runs.read import read_record

BEFORE = Path("eval", "before.json")
OF_TRAINING = {
    "method",
    "steps",
    "lr",
    "keep",
    "warmup",
    "control",
    "kl",
    "entropy",
    "clip",
    "update",
    "optimizer",
}
"""Keys of a recipe that what is sampled and judged before training does not depend on."""


@dataclass
class Beginnings:
    """Where the evaluation before training is made already, by what it depends on."""

    _made: dict[str, Path] = field(default_factory=dict[str, Path])

    def add(self, spec: RunSpec) -> None:
        self._made.setdefault(_beginning(spec.recipe), spec.folder)

    def give(self, spec: RunSpec) -> None:
        """Copy the evaluation into a run that begins as one which has it; nothing if it has its
        own. The record is copied last: without it, samples do not count."""
        made = self._made.get(_beginning(spec.recipe))
        if made is None or (spec.folder / BEFORE).exists():
            return
        if read_record(made / BEFORE, Evaluation, strict=False) is None:
            return  # damaged: the run makes its own
        (spec.folder / BEFORE).parent.mkdir(exist_ok=True)
        names = [f"eval/{path.name}" for path in sorted((made / "eval").glob("before*.jsonl"))]
        for name in (*names, BEFORE.as_posix()):
            with new_file(spec.folder / name) as beside:
                beside.write_bytes(read_bytes(made / name))
        manifest.enter(spec.folder, *names, BEFORE.as_posix())


def _beginning(recipe: Recipe) -> str:
    return json.dumps(recipe.model_dump(mode="json", exclude=OF_TRAINING), sort_keys=True)
