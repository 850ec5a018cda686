"""Which library multiplies large layers fastest on a CPU: `ictcli_torch.cpu` is of it.

    OMP_NUM_THREADS=1 python bench/products.py [--rows 8 64 200 500 800] [--json FILE]

Products of Qwen2.5-0.5B's layers, with so many rows: forward, x W'; back, dy W; and the gradient of
the weight, dy' x. GFLOP per CPU second on one thread, the best of the rounds; the libraries take
turns. Few rows read several copies of a weight, as a decoding step does, which no cache holds.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from harness import record, take_turns
from ictcli_torch.cpu import packed
from torch import Tensor
from torch.nn.functional import linear

SHAPES = ((4864, 896), (896, 4864), (896, 896), (151_936, 896))
"""Outputs and inputs."""
FEW = 16
"""Rows of a decoding step, at most."""
ONEDNN = torch.ops.mkldnn


def by_onednn(x: Tensor, weight: Tensor) -> Tensor:
    return ONEDNN._linear_pointwise(x, weight, None, "none", [], "")


def libraries(rows: int, weight: Tensor) -> dict[str, Callable[[], Tensor]]:
    """The products of a layer by direction and library."""
    x, dy = torch.randn(rows, weight.shape[1]), torch.randn(rows, weight.shape[0])
    half, arranged = packed(weight), ONEDNN._reorder_linear_weight(weight)
    assert half is not None, "this PyTorch has no FBGEMM"
    forward = {
        "forward MKL": lambda: linear(x, weight),
        "forward oneDNN": lambda: by_onednn(x, weight),
        "forward oneDNN, arranged": lambda: by_onednn(x, arranged),
        "forward FBGEMM, 16 bits": lambda: torch.ops.quantized.linear_dynamic_fp16(x, half),
    }
    if rows <= FEW:
        return forward
    return forward | {
        "back MKL": lambda: dy @ weight,
        "back oneDNN": lambda: by_onednn(dy, weight.t()),
        "weight MKL": lambda: dy.t() @ x,
        "weight oneDNN": lambda: by_onednn(dy.t().contiguous(), x.t()),
    }


def measure(rows: int, shape: tuple[int, int], rounds: int) -> dict[str, float]:
    """GFLOP/s by direction and library."""
    copies = max(1, min(12, (1 << 26) // (shape[0] * shape[1]))) if rows <= FEW else 1
    weights = [(torch.randn(shape) * 0.02).bfloat16().float() for _ in range(copies)]
    layers = [libraries(rows, weight) for weight in weights]
    operations = 2 * rows * shape[0] * shape[1] * copies
    repeats = max(1, int(1e9 / operations))

    def turn(name: str) -> float:
        began = time.process_time()
        for layer in layers * repeats:
            layer[name]()
        return operations * repeats / (time.process_time() - began) / 1e9

    turns = take_turns({name: lambda name=name: turn(name) for name in layers[0]}, rounds)
    return {name: max(its) for name, its in turns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 64, 200, 500, 800])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write what was found")
    a = parser.parse_args()
    torch.set_num_threads(1)
    found = dict[str, dict[str, float]]()
    print(torch.backends.cpu.get_cpu_capability())
    for rows in a.rows:
        for shape in SHAPES:
            if rows > FEW and shape[0] > 1e5:  # few states meet the head
                continue
            key = f"{rows} rows, {shape[1]} to {shape[0]}"
            found[key] = measure(rows, shape, a.rounds)
            print(key, *(f"\n  {name:26s} {rate:6.1f}" for name, rate in found[key].items()))
    if a.json:
        record(a.json, ("torch",), gflops=found)


if __name__ == "__main__":
    main()
