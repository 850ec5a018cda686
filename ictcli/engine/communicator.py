"""Messages between the processes of a launch, on two primitives that a backend's library has."""

import contextlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from pydantic import BaseModel
from safetensors.numpy import load, save

from ictcli.errors import LostError

Arrays = Mapping[str, Any]
"""Arrays of a backend's library by name."""


class Communicator(ABC):
    """This process among those of a launch.

    A message is any value made of frozen dataclasses and settings of ictcli, NumPy arrays, lists,
    tuples, dictionaries by text, and plain values.
    """

    rank: int
    size: int
    broken = False
    """Whether this rank left the others in the middle of what all do at once."""
    messages, message_bytes = 0, 0
    """Of this process: what all ranks did at once, and the bytes that went in or came out of it,
    whichever are more."""

    @staticmethod
    def count(size: int) -> None:
        """Count a message of so many bytes."""
        Communicator.messages += 1
        Communicator.message_bytes += size

    @abstractmethod
    def every(self, own: np.ndarray) -> list[np.ndarray]:
        """Every rank's array, by rank. They have one shape and type."""

    @abstractmethod
    def first(self, own: np.ndarray) -> np.ndarray:
        """Rank 0's array. The others bring one of its shape and type."""

    @abstractmethod
    def array(self, own: Any, shape: Sequence[int], kind: str) -> Any:
        """Rank 0's array of the backend's library, on every rank. The others bring None."""

    @abstractmethod
    def close(self) -> None:
        """Leave the others."""

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Around what all ranks do at once. If it fails on this one, no rank may be spoken to any
        more: the others wait for the part that will not come."""
        if self.broken:
            raise LostError("The launch has lost step.", "start the same launch again")
        try:
            yield
        except BaseException:
            self.broken = self.size > 1
            raise

    def broadcast(self, message: Any = None) -> Any:
        """Rank 0's message, on every rank."""
        blob = np.frombuffer(packed(message), dtype=np.uint8) if self.rank == 0 else None
        with self.together():
            size = int(self.first(np.array([0 if blob is None else len(blob)]))[0])
            body = self.first(np.zeros(size, dtype=np.uint8) if blob is None else blob)
        self.count(8)
        self.count(size)
        return unpacked(body.tobytes())

    def spread(self, trees: Sequence[Arrays]) -> list[dict[str, Any]]:
        """Rank 0's arrays, on every rank."""
        own = [
            {name: (list(x.shape), str(x.dtype).rpartition(".")[2]) for name, x in tree.items()}
            for tree in trees
        ]

        def spread(array: Any, how: tuple[Sequence[int], str]) -> Any:
            found = self.array(array if self.rank == 0 else None, *how)
            self.count(found.nbytes)
            return found

        return [
            {name: spread(tree.get(name), how) for name, how in layout.items()}
            for tree, layout in zip(trees, self.broadcast(own), strict=True)
        ]

    def gather(self, message: Any) -> list[Any]:
        """Every rank's message, by rank, on every rank."""
        blob = np.frombuffer(packed(message), dtype=np.uint8)
        with self.together():
            sizes = np.concatenate(self.every(np.array([len(blob)])))
            padded = np.zeros(sizes.max(), dtype=np.uint8)
            padded[: len(blob)] = blob
            rows = self.every(padded)
        self.count(sizes.nbytes)
        self.count(padded.nbytes * self.size)
        return [unpacked(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


class Alone:
    """The only process."""

    rank, size = 0, 1

    @staticmethod
    def together() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def gather(self, message: Any) -> list[Any]:
        return [message]

    def spread(self, trees: Sequence[Arrays]) -> Sequence[Arrays]:
        return trees


def gone(reason: object) -> LostError:
    """The error of a rank that another one has left."""
    return LostError(
        f"Another process of the launch is gone: {reason}.",
        "its own message says why; the same launch with ictcli resume RUN goes on",
    )


def packed(message: Any) -> bytes:
    """A message as bytes: JSON and safetensors, no pickle."""
    arrays = dict[str, np.ndarray]()
    head = json.dumps(_plain(message, arrays)).encode()
    return len(head).to_bytes(8, "little") + head + save(arrays)


def unpacked(blob: bytes) -> Any:
    end = 8 + int.from_bytes(blob[:8], "little")
    return _made(json.loads(blob[8:end]), load(blob[end:]))


def _plain(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A value for JSON, its arrays set apart. A list is a kind, its name and its parts."""

    def parts(some: Mapping[str, Any]) -> dict[str, Any]:
        return {key: _plain(part, arrays) for key, part in some.items()}

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    if isinstance(value, BaseModel):
        return ["model", _name(value), value.model_dump(mode="json")]
    if is_dataclass(value):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        return ["object", _name(value), parts(held)]
    kind = type(value).__name__
    if kind == "ndarray":
        arrays[name := str(len(arrays))] = np.ascontiguousarray(value)
        return ["array", name, None]
    if kind == "dict":
        return ["dict", "", parts(value)]
    assert kind in ("list", "tuple"), f"a {kind} is no part of a message"
    return [kind, "", [_plain(part, arrays) for part in value]]


def _made(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(value, list):
        return value
    kind, name, parts = cast("list[Any]", value)
    match kind:
        case "array":
            return arrays[name]
        case "model":
            return _kind(name).model_validate(parts)
        case "object":
            return _kind(name)(**{key: _made(part, arrays) for key, part in parts.items()})
        case "dict":
            return {key: _made(part, arrays) for key, part in parts.items()}
        case "tuple":
            return tuple(_made(part, arrays) for part in parts)
        case _:
            return [_made(part, arrays) for part in parts]


def _name(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _kind(name: str) -> Any:
    """A class of ictcli's own: no other comes in a message."""
    module, _, kind = name.partition(":")
    assert module.partition(".")[0] == "ictcli", name
    return getattr(importlib.import_module(module), kind)
