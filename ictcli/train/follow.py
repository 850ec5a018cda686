"""Data-parallel training on the ranks other than 0, each in a temporary folder."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ictcli.engine.registry import communicator
from ictcli.files import gate
from ictcli.files.reading import parse_toml
from ictcli.recipe import RecipeFile, load_recipe
from ictcli.runs import Run
from ictcli.runs.observer import Observer
from ictcli.train.finish import extend
from ictcli.train.launch import train_to_the_end


def follow() -> None:
    """Train each run that rank 0 launches, in a copy of the run's small files; return when rank 0
    ends. An error is raised here unless all ranks had the same error: rank 0 raises that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 finishes its step
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (to the end)
    ranks = communicator()
    while program := ranks.broadcast():
        gate.adopt(program["gate"])
        with TemporaryDirectory(prefix="ictcli-") as name:
            folder = Path(name).resolve() / "run"
            for file, content in program["files"].items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            run, began = Run.open(folder)
            path = folder / "recipe.toml"
            recipe = load_recipe(RecipeFile(str(path), path, parse_toml(program["recipe"])))
            recipe = recipe.model_copy(update={"log": ()})
            longer = recipe.steps > began.steps
            begin = partial(extend, run, began, recipe.steps) if longer else lambda: None
            try:
                with run:
                    train_to_the_end(run, recipe, Observer(), begin, lambda: False, ranks)
            except Exception:
                if ranks.broken:
                    raise
