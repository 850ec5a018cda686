"""Encoding of messages between the processes of a launch: JSON and safetensors instead of pickle,
so that a message cannot run code. Tuples arrive as lists."""

import importlib
import json
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from pydantic import BaseModel
from safetensors.numpy import load, save

KIND = "of what kind"
"""The key that marks a JSON table as an encoded array, bytes or object."""


def packed(message: Any) -> bytes:
    """Encode plain values, arrays, and ictcli's dataclasses and pydantic models as bytes."""
    arrays = dict[str, Any]()

    def plain(value: Any) -> Any:
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if isinstance(value, BaseModel):
            return {KIND: name, "parts": value.model_dump(mode="json")}
        if is_dataclass(value):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return {KIND: name, "parts": parts}
        if isinstance(value, np.generic):
            return cast(Any, value).item()
        is_bytes, place = isinstance(value, bytes), str(len(arrays))
        arrays[place] = np.frombuffer(value, np.uint8) if is_bytes else np.array(value, order="C")
        return {KIND: "bytes" if is_bytes else "array", "parts": place}

    head = json.dumps(message, default=plain).encode()
    return len(head).to_bytes(8, "little") + head + save(arrays)


def unpacked(blob: bytes) -> Any:
    """Decode a message from `packed`. AssertionError if the blob names a class outside of
    ictcli."""
    end = 8 + int.from_bytes(blob[:8], "little")
    arrays = load(blob[end:])

    def decode(table: dict[str, Any]) -> Any:
        if KIND not in table:
            return table
        name, parts = table[KIND], table["parts"]
        if name in ("array", "bytes"):
            return arrays[parts] if name == "array" else arrays[parts].tobytes()
        module, _, kind = name.partition(":")
        assert module.partition(".")[0] == "ictcli", name
        cls = getattr(importlib.import_module(module), kind)
        assert isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, BaseModel))
        return cls.model_validate(parts) if issubclass(cls, BaseModel) else cls(**parts)

    return json.loads(blob[8:end], object_hook=decode)
