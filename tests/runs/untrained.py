"""Runs that nobody trained, and an engine of one number."""

import sys
from pathlib import Path
from typing import Any

from deaths import PIECE

from ictcli.engine.distributed import Alone
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.runs.records import StepMetrics, StepTimings


class Number:
    """What an engine saves and restores, of one number; it writes each file in two pieces."""

    ranks = Alone()

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def align(self) -> None: ...

    def save(self, folder: Path) -> None:
        for name in ("weights.safetensors", "optimizer.safetensors"):
            with (folder / name).open("wb") as file:
                file.write(b"%d" % self.value)
                file.flush()
                sys.audit(PIECE)
                file.write(bytes(100))

    def restore(self, folder: Path) -> None:
        one, other = (folder / f"{name}.safetensors" for name in ("weights", "optimizer"))
        assert one.read_bytes() == other.read_bytes()
        self.value = int(one.read_bytes().rstrip(b"\0"))


def number(value: int = 0) -> Any:
    return Number(value)


def begun(folder: Path, steps: int = 9) -> Run:
    folder.mkdir()
    (folder / "recipe.toml").write_text('model = "m"\ntask = "chain"\n')
    fill(run := Run(folder), steps)
    return run


def fill(run: Run, steps: int) -> None:
    for step in range(1, steps + 1):
        run.append(StepMetrics(step=step, reward=step / 10))
        run.append(StepTimings(step=step, sample_s=0.1))
        (run.folder / "rollouts").mkdir(exist_ok=True)
        (run.folder / "rollouts" / f"step-{step:06d}.safetensors").touch()


def save(run: Run, step: int, last: int = 2, best: int = 0) -> Path:
    value = None if best == 0 else best / 10
    state = State(step, best_metric="reward" if best else "", best_step=best, best_value=value)
    return run.checkpoint(number(step), state, last)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
