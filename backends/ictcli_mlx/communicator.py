"""Messages and sums between the processes of a launch."""

import contextlib
from collections.abc import Generator
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.engine.distributed import Message, packed, unpacked
from ictcli.errors import RunFailedError

from .files import number


class Communicator:
    """One process among those of a launch."""

    def __init__(self) -> None:
        self.group = mx.distributed.init(strict=True)
        self.rank, self.size = self.group.rank(), self.group.size()
        self.broken = False

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Around what all ranks do at once. If it fails on this one, no rank may be spoken to any
        more: the others wait for the part that will not come."""
        if self.broken:
            raise RunFailedError("The launch has lost step.", "start the same mlx.launch again")
        try:
            yield
        except BaseException:
            self.broken = True
            raise

    def _sum(self, values: mx.array) -> mx.array:
        return self._done(mx.distributed.all_sum(values, group=self.group, stream=mx.cpu))

    def _every(self, values: mx.array) -> mx.array:
        return self._done(mx.distributed.all_gather(values, group=self.group, stream=mx.cpu))

    def max(self, value: float) -> float:
        highest = mx.distributed.all_max(mx.array(value), group=self.group, stream=mx.cpu)
        return number(self._done(highest))

    def _done(self, values: mx.array) -> mx.array:
        try:
            mx.eval(values)  # a collective: every rank has to be here
        except RuntimeError as error:
            raise RunFailedError(
                f"Another process of the launch is gone: {error}.",
                "its own message says why; the same mlx.launch with ictcli resume RUN goes on",
            ) from error
        return values

    def broadcast(self, message: Message | None) -> Message:
        """Rank 0's message, on every rank."""
        blob = b"" if message is None else packed(message)
        size = int(np.array(self._sum(mx.array(len(blob), dtype=mx.int32))))
        part = np.frombuffer(blob, dtype=np.uint8) if blob else np.zeros(size, dtype=np.uint8)
        return unpacked(np.array(self._sum(mx.array(part))).tobytes())

    def gather(self, message: Message) -> list[Message]:
        """Every rank's message, by rank, on every rank."""
        blob = np.frombuffer(packed(message), dtype=np.uint8)
        sizes = np.array(self._every(mx.array([len(blob)], dtype=mx.int32)))
        padded = np.zeros((1, sizes.max()), dtype=np.uint8)
        padded[0, : len(blob)] = blob
        rows = np.array(self._every(mx.array(padded)))
        return [unpacked(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]

    def sum(self, tree: Any) -> Any:
        """A tree's sum over ranks, array by array, the same bits on every rank."""
        return tree_map(self._sum, tree)

    def spread(self, tree: Any) -> Any:
        """Rank 0's arrays, on every rank."""
        return self.sum(tree if self.rank == 0 else tree_map(mx.zeros_like, tree))
