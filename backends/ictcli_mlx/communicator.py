"""Messages and sums between the processes of a launch."""

from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.engine.communicator import Communicator, gone

from .files import number


class MlxCommunicator(Communicator):
    """One process among those of a launch."""

    def __init__(self) -> None:
        self.group = mx.distributed.init(strict=True)
        self.rank, self.size = self.group.rank(), self.group.size()

    def every(self, own: np.ndarray) -> list[np.ndarray]:
        rows = mx.distributed.all_gather(mx.array(own)[None], group=self.group, stream=mx.cpu)
        return list(np.array(self._done(rows)))

    def first(self, own: np.ndarray) -> np.ndarray:
        return np.array(self._sum(mx.array(own if self.rank == 0 else np.zeros_like(own))))

    def _sum(self, values: mx.array) -> mx.array:
        return self._done(mx.distributed.all_sum(values, group=self.group, stream=mx.cpu))

    def max(self, value: float) -> float:
        highest = mx.distributed.all_max(mx.array(value), group=self.group, stream=mx.cpu)
        return number(self._done(highest))

    def _done(self, values: mx.array) -> mx.array:
        try:
            mx.eval(values)  # a collective: every rank has to be here
        except RuntimeError as error:
            raise gone(error) from error
        return values

    def sum(self, tree: Any) -> Any:
        """A tree's sum over ranks, array by array, the same bits on every rank."""
        return tree_map(self._sum, tree)

    def spread(self, tree: Any) -> Any:
        """Rank 0's arrays, on every rank."""
        return self.sum(tree if self.rank == 0 else tree_map(mx.zeros_like, tree))


@cache
def communicator() -> MlxCommunicator:
    """This process's, one for all the engines it builds."""
    return MlxCommunicator()
