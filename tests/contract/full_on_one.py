"""Run by `test_distributed` on every rank of a launch: memory runs out on rank 1, once while it
samples and once in an update. Then the same again, within the budget that was found."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.algorithm.objective import Objective
from ictcli.engine import build_engine, run_in_ranks
from ictcli.engine.budget import Budget
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.types import Sampling

FULL = {"mlx": RuntimeError("[malloc] Unable to allocate 1 bytes."), "torch": MemoryError()}


def main() -> None:
    """Its arguments are an engine, a model and a folder."""
    backend, model, folder = sys.argv[1:]
    fill(backend)
    run_in_ranks(lambda: work(backend, model, Path(folder)))


def fill(backend: str) -> None:
    """Have memory run out."""
    if backend == "mlx":
        from ictcli_mlx import ranks, sample
    else:
        from ictcli_torch import ranks, sample
    passes, draw = Budget.micro_batches, sample.draw
    drawn, failed = list[int](), list[int]()

    def passes_once(budget: Budget, rollouts: Any, *arguments: Any, **options: Any) -> Iterator:
        of_update = len(rollouts) == 16  # not build_engine's check
        if of_update:
            print("tokens", budget.tokens)
        for number, batch in enumerate(passes(budget, rollouts, *arguments, **options)):
            if of_update and number == 1 and ranks.communicator().rank > 0 and not failed:
                failed.append(number)
                raise FULL[backend]
            yield batch

    def draws_once(*arguments: Any, **options: Any) -> Any:
        drawn.append(1)
        if len(drawn) == 4 + 2 and ranks.communicator().rank > 0:  # after the 4 of the check
            raise FULL[backend]
        return draw(*arguments, **options)

    patched: Any = Budget
    patched.micro_batches, sample.draw = passes_once, draws_once


def work(backend: str, model: str, folder: Path) -> None:
    state = dict[str, Any]()
    said, prompts = list[str](), [[5, 12, 3], [2, 13, 9], [7, 1, 2], [4, 4, 8]]
    for name in ("shrinks", "begins small"):
        engine: Any = build_engine(
            model, EngineSettings(backend=backend, micro_tokens=64), OptimizerSettings()
        )
        engine.budget.say = said.append
        engine.budget.restore(state)
        rollouts = engine.generate(prompts, 4, Sampling(14, stop_ids=(17,)), 7)
        weights = rollouts.valid / rollouts.valid.sum()
        engine.update(Update(rollouts, weights, np.linspace(-1, 1, 16), Objective()), 1e-3)
        state = engine.budget.state()
        place = folder / name
        place.mkdir()
        engine.save(place)
        np.save(place / "tokens.npy", rollouts.tokens)
    print("said", len(said))
    print("state", state["micro_tokens"], state["rows"])
