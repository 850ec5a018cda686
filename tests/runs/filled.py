"""Run folders with steps in them."""

from pathlib import Path

from ictcli.runs import Run
from ictcli.runs.records import StepMetrics, StepTimings


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def fill(run: Run, steps: int) -> None:
    for step in range(1, steps + 1):
        run.append(StepMetrics(step=step, reward=step / 3))
        run.append(StepTimings(step=step, sample_s=0.1))
        (run.folder / "rollouts").mkdir(exist_ok=True)
        (run.folder / "rollouts" / f"step-{step:06d}.safetensors").touch()
