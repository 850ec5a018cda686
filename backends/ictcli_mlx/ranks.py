"""Several processes of the MLX engine (`ictcli.engine.distributed`), over MLX's own communication;
`mlx.launch` starts them. Entry point `ictcli.ranks`."""

from collections.abc import Sequence
from functools import cache, partial

import mlx.core as mx
import numpy as np

from ictcli.engine.communicator import Communicator, gone
from ictcli.engine.distributed import start

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
        return np.array(self._all_sum(mx.array(own if self.rank == 0 else np.zeros_like(own))))

    def sum(self, values: mx.array) -> mx.array:
        """Its sum over ranks, the same bits on every rank."""
        self.count(values.nbytes)
        return self._all_sum(values)

    def _all_sum(self, values: mx.array) -> mx.array:
        return self._done(mx.distributed.all_sum(values, group=self.group, stream=mx.cpu))

    def _done(self, values: mx.array) -> mx.array:
        try:
            mx.eval(values)  # a collective: every rank has to be here
        except RuntimeError as error:
            raise gone(error) from error
        return values

    def array(self, own: mx.array | None, shape: Sequence[int], kind: str) -> mx.array:
        return self._all_sum(mx.zeros(shape, getattr(mx, kind)) if own is None else own)

    def close(self) -> None:
        """MLX leaves at the process's end."""


build = partial(start, MlxEngine)


@cache
def communicator() -> MlxCommunicator:
    """This process's, one for all the engines it builds."""
    return MlxCommunicator()
