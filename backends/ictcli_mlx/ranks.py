"""Several processes of the MLX engine (`ictcli.engine.distributed`), over MLX's own communication;
`mlx.launch` starts them. Entry point `ictcli.ranks`."""

from collections.abc import Sequence
from functools import cache

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.engine.communicator import Communicator, gone
from ictcli.engine.distributed import DataParallel

from .engine import MlxEngine


class MlxCommunicator(Communicator):
    """One process among those of a launch."""

    def __init__(self) -> None:
        self.group = mx.distributed.init(strict=True)
        self.rank, self.size = self.group.rank(), self.group.size()

    def every(self, own: np.ndarray) -> list[np.ndarray]:
        rows = mx.distributed.all_gather(mx.array(own)[None], group=self.group, stream=mx.cpu)
        return list(np.array(self._done(rows)))

    def first(self, own: np.ndarray) -> np.ndarray:
        return np.array(self.sum(mx.array(own if self.rank == 0 else np.zeros_like(own))))

    def sum(self, values: mx.array) -> mx.array:
        """Its sum over ranks, the same bits on every rank."""
        return self._done(mx.distributed.all_sum(values, group=self.group, stream=mx.cpu))

    def _done(self, values: mx.array) -> mx.array:
        try:
            mx.eval(values)  # a collective: every rank has to be here
        except RuntimeError as error:
            raise gone(error) from error
        return values

    def array(self, own: mx.array | None, shape: Sequence[int], kind: str) -> mx.array:
        return self.sum(mx.zeros(shape, getattr(mx, kind)) if own is None else own)

    def close(self) -> None:
        """MLX leaves at the process's end."""


class DataParallelEngine(DataParallel, MlxEngine):
    """An engine of one rank."""

    def sum_gradient(self) -> None:
        gradient = self.optimizer.gradient
        if gradient is None:
            gradient = tree_map(lambda w: mx.zeros(w.shape), self.model.trainable_parameters())
        self.optimizer.gradient = tree_map(self._summed, gradient)

    def _summed(self, array: mx.array) -> mx.array:
        self.ranks.count(array.nbytes)
        return self.ranks.sum(array)


build = DataParallelEngine


@cache
def communicator() -> MlxCommunicator:
    """This process's, one for all the engines it builds."""
    return MlxCommunicator()
