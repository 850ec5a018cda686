"""Designs of comparisons that nobody runs, and times of their runs."""

from pathlib import Path

from ictcli.compare.design import Design
from ictcli.compare.time_estimate import RunCosts
from ictcli.compare.variants import read_grid, variants_of

METHODS = ("ict", "grpo", "random")


def design_of(folder: Path, *sweeps: str, seeds: int = 2) -> Design:
    grids = [read_grid(text, "--sweep") for text in sweeps]
    return Design("chain-compare", ("steps=4",), variants_of(METHODS, grids), seeds, folder)


def timed(step: float, load: float = 1.0) -> RunCosts:
    return RunCosts(load, step, 10 * step, problem=0.01, model=100, checkpoint=10, rollouts=1)
