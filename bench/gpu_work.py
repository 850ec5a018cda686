"""What the parts of `bench/gpu.py` share: the work, models of Qwen2.5's shapes, their bounds."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from harness import make_model, take_turns
from memory import make_recipe
from peer_trl import RANK
from qwen import SIZES

from ictcli.engine import build_engine

T = TypeVar("T")

WORK = {"prompts": 8, "group": 8, "prompt": 100, "tokens": 256}
TINY = {"prompts": 2, "group": 4, "prompt": 12, "tokens": 32}
KEEP = 0.1
DTYPE = {"cuda": "bfloat16", "cpu": "float32"}


class Report:
    """Appends rows of tables to a file at once, so that a part that is stopped loses none."""

    def __init__(self, file: Path, part: str) -> None:
        self.file, self.part = file, part

    def __call__(self, table: str, **cells: Any) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": self.part, "table": table, "cells": cells}) + "\n")


def seconds(device: str, work: Callable[[], T]) -> tuple[float, T]:
    """Wall seconds until the device has done it, and what it returned."""

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    wait()
    began = time.perf_counter()
    result = work()
    wait()
    return time.perf_counter() - began, result


def shaped(folder: str, device: str, size: str) -> None:
    """Write a random model of that size in bfloat16; the device draws its weights."""
    with torch.device(device):
        make_model(Path(folder), "torch", dtype="bfloat16", **SIZES[size])


def recipe_of(folder: str, device: str, trained: str, work: dict[str, int], **engine: Any) -> Any:
    settings = {"device": device, "dtype": DTYPE[device], "micro_tokens": 8192, "keep": KEEP}
    settings |= engine
    settings |= {name: work[name] for name in ("prompts", "group")} | {"max_tokens": work["tokens"]}
    if trained == "lora":
        settings["adapter"] = {"kind": "lora", "rank": RANK, "alpha": 2 * RANK}
    return make_recipe(Path(folder), "torch", settings)


def make_engine(folder: str, device: str, trained: str, work: dict[str, int], **engine: Any) -> Any:
    """An engine of the torch backend."""
    recipe = recipe_of(folder, device, trained, work, **engine)
    return build_engine(folder, recipe.engine, recipe.optimizer, recipe.adapters)


def prompts_of(work: dict[str, int]) -> list[list[int]]:
    return [[2 + (i + n) % 14 for i in range(work["prompt"])] for n in range(work["prompts"])]


def limits(device: str, tiny: bool) -> dict[str, float]:
    """Bytes a second of a copy, reads and writes, and operations a second of a product of bfloat16
    matrices."""
    size = 512 if tiny else 8192
    a, b = (torch.randn((size, size), device=device, dtype=torch.bfloat16) for _ in range(2))
    other = torch.empty_like(a)
    turns = take_turns(
        {
            "copy": lambda: seconds(device, lambda: [other.copy_(a) for _ in range(20)])[0] / 20,
            "product": lambda: seconds(device, lambda: torch.mm(a, b, out=other))[0],
        },
        10,
    )
    return {
        "bytes/s": 2 * a.nbytes / min(turns["copy"]),
        "operations/s": 2 * size**3 / min(turns["product"]),
    }


def bytes_of_step(shape: Any, work: dict[str, int]) -> float:
    """Of the weights that a token meets, and of the keys and values before it, on average."""
    weights = 2 * (shape.layers * shape.block + shape.embedding)
    positions = work["prompt"] + work["tokens"] / 2
    return weights + 2.0 * 2 * rows_of(work) * positions * shape.layers * shape.keys


def rows_of(work: dict[str, int]) -> int:
    return work["prompts"] * work["group"]


def operations(shape: Any, tokens: int, keep: float, trained: str, work: dict[str, int]) -> float:
    """Of an update that ran `tokens` tokens: each product forward, for the gradient of its input,
    and of its weight where that is trained. Attention to what lies before, on average."""
    wanted = rows_of(work) * work["tokens"] * keep
    times = 3 if trained == "full" else 2
    trunk = 2.0 * times * tokens * shape.layers * shape.block
    before = work["prompt"] + work["tokens"] / 2
    attention = 3 * 4.0 * tokens * before * shape.layers * shape.queries
    return trunk + attention + 2.0 * times * wanted * shape.embedding
