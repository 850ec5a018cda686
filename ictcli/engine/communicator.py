"""Messages between the processes of a launch, on two primitives that a backend's library has."""

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ictcli.errors import RunFailedError

Message = tuple[str, dict[str, Any], dict[str, np.ndarray]]
"""A verb, its plain arguments and its arrays."""


class Communicator(ABC):
    """This process among those of a launch, be it the only one."""

    rank: int
    size: int
    broken = False
    """Whether this rank left the others in the middle of what all do at once."""

    @abstractmethod
    def every(self, own: np.ndarray) -> list[np.ndarray]:
        """Every rank's array, by rank. They have one shape and type."""

    @abstractmethod
    def first(self, own: np.ndarray) -> np.ndarray:
        """Rank 0's array. The others bring one of its shape and type."""

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Around what all ranks do at once. If it fails on this one, no rank may be spoken to any
        more: the others wait for the part that will not come."""
        if self.broken:
            raise RunFailedError("The launch has lost step.", "start the same launch again")
        try:
            yield
        except BaseException:
            self.broken = self.size > 1
            raise

    def broadcast(self, message: Message | None) -> Message:
        """Rank 0's message, on every rank."""
        if self.size == 1:
            assert message is not None
            return message
        blob = b"" if message is None else packed(message)
        with self.together():
            size = int(self.first(np.array([len(blob)]))[0])
            own = np.frombuffer(blob, dtype=np.uint8) if blob else np.zeros(size, dtype=np.uint8)
            body = self.first(own)
        return message or unpacked(body.tobytes())

    def gather(self, message: Message) -> list[Message]:
        """Every rank's message, by rank, on every rank."""
        if self.size == 1:
            return [message]
        blob = np.frombuffer(packed(message), dtype=np.uint8)
        with self.together():
            sizes = np.concatenate(self.every(np.array([len(blob)])))
            padded = np.zeros(sizes.max(), dtype=np.uint8)
            padded[: len(blob)] = blob
            rows = self.every(padded)
        return [unpacked(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def gone(reason: object) -> RunFailedError:
    """The error of a rank that another one has left."""
    return RunFailedError(
        f"Another process of the launch is gone: {reason}.",
        "its own message says why; the same launch with ictcli resume RUN goes on",
    )


def packed(message: Message) -> bytes:
    """A message as bytes: JSON and safetensors, no pickle."""
    verb, arguments, arrays = message
    head = json.dumps([verb, arguments]).encode()
    body = save({name: np.ascontiguousarray(values) for name, values in arrays.items()})
    return len(head).to_bytes(8, "little") + head + body


def unpacked(blob: bytes) -> Message:
    end = 8 + int.from_bytes(blob[:8], "little")
    verb, arguments = json.loads(blob[8:end])
    return verb, arguments, load(blob[end:])
