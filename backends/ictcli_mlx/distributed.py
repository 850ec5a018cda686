"""Data parallelism over MLX's own communication (`ictcli.engine.distributed`); `mlx.launch` starts
the processes."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.engine import distributed
from ictcli.engine.distributed import SUMMED, DataParallel
from ictcli.engine.update import Update, UpdateStats

from .communicator import MlxCommunicator, communicator
from .engine import MlxEngine


class DataParallelEngine(DataParallel, MlxEngine):
    """An engine of one rank."""

    def __init__(self, processes: MlxCommunicator, *arguments: Any) -> None:
        self.processes = processes
        with processes.together():
            super().__init__(*arguments)
            self._align()

    def _align(self) -> None:
        """Every rank takes rank 0's weights and moments, to the bit."""
        if self.optimizer is None:
            return
        # sorted: arrays are exchanged one by one, and a file's order is not a model's
        trees = [dict(sorted(x.items())) for x in (self.trained_weights(), self.optimizer.state())]
        self.load(*self.processes.spread(trees))

    def gradient(self, update: Update) -> UpdateStats:
        """The whole batch's gradient and figures: each rank passes over its rows."""
        share = self.share_of(update)
        gradient_of = super().gradient
        stats = self.agreed(lambda: gradient_of(share))
        gradient = self.optimizer.gradient
        if gradient is None:
            gradient = tree_map(lambda w: mx.zeros(w.shape), self.model.trainable_parameters())
        figures = {name: mx.array(getattr(stats, name)) for name in SUMMED}
        gradient, figures, logp = self.processes.sum([gradient, figures, mx.array(stats.logp)])
        stats = replace(
            UpdateStats(np.array(logp), gap=self.processes.max(stats.gap)),
            **{name: value.item() for name, value in figures.items()},
        )
        self.optimizer.gradient = gradient if stats.count else None
        return stats

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        with self.processes.together():
            self.tell("align")
            self._align()

    def obey(self, verb: str, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> bool:
        if verb != "align":
            return super().obey(verb, arguments, arrays)
        self._align()
        return True


def lead(*arguments: Any) -> DataParallelEngine:
    """Rank 0's engine; the others build theirs."""
    return distributed.lead(communicator(), _make(), *arguments)


def work() -> None:
    """What every rank but 0 does."""
    distributed.work(communicator(), _make())


def _make() -> distributed.Make:
    return partial(DataParallelEngine, communicator())


def shut_down() -> None:
    """End the other ranks."""
    distributed.shut_down(communicator())
