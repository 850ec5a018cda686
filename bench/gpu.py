"""The PyTorch engine on a GPU, beside what the device can do, and beside TRL.

    python bench/gpu.py --json bench/results/gpu.json [--trl PYTHON]
    python bench/gpu.py --device cpu --tiny

Random models of Qwen2.5's shapes in bfloat16, LoRA of rank 16 and all weights; a step is 8 prompts
x 8 rollouts x 256 tokens, none of which ends early. Sampling takes ICT's statistics and is measured
with plain steps and with those of fixed shapes, which are CUDA graphs on a GPU. Its bound is the
bandwidth of a large copy: each step reads the weights and the filled cache once. The update trains
10 % of the tokens, or all. Its bound is the rate of a large bfloat16 product; those of the adapters
themselves are left out. Peaks of memory stand beside the plan's. With `--trl`, TRL's step takes
turns with ours (`bench/peers_torch.py`), and TRL's with vLLM too where that Python has it. Each
model is measured in a process of its own; the first round warms up, and the medians of the others
are shown.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from harness import (
    STATISTICS,
    cuda_context,
    in_fresh_process,
    make_model,
    peak_of,
    random_weights,
    record,
    take_turns,
)
from memory import make_recipe
from peer_trl import RANK
from peers_torch import compare, show
from qwen import SIZES

T = TypeVar("T")

WORK = {"prompts": 8, "group": 8, "prompt": 100, "tokens": 256}
TINY = {"prompts": 2, "group": 4, "prompt": 12, "tokens": 16}
TRAINED = ("lora", "full")
KEEP = 0.1


def seconds(device: str, work: Callable[[], T]) -> tuple[float, T]:
    """Wall seconds until the device has done it, and what it gave."""

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    wait()
    began = time.perf_counter()
    result = work()
    wait()
    return time.perf_counter() - began, result


def limits(device: str, size: int) -> dict[str, float]:
    """Bytes a second of a copy, reads and writes, and operations a second of a product of bfloat16
    matrices of `size`."""
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


def measure(
    folder: str, device: str, trained: str, work: dict[str, int], rounds: int
) -> dict[str, Any]:
    """Medians of one model, and what bounds them."""
    from ictcli_torch.decode import FixedDecoder, GrowingDecoder
    from ictcli_torch.plan import CUDA_CONTEXT

    from ictcli.algorithm.objective import Objective
    from ictcli.engine import build_engine
    from ictcli.engine.shape import read_shape
    from ictcli.engine.update import Update
    from ictcli.planning.estimate import estimate_memory
    from ictcli.types import Sampling

    settings = {"device": device, "dtype": "bfloat16", "micro_tokens": 8192, "keep": KEEP}
    settings |= {name: work[name] for name in ("prompts", "group")} | {"max_tokens": work["tokens"]}
    if trained == "lora":
        settings["adapter"] = {"kind": "lora", "rank": RANK, "alpha": 2 * RANK}
    recipe = make_recipe(Path(folder), "torch", settings)
    engine: Any = build_engine(folder, recipe.engine, recipe.optimizer, recipe.adapters)
    prompts = [[2 + (i + n) % 14 for i in range(work["prompt"])] for n in range(work["prompts"])]
    lockstep, found = engine.lockstep, {}

    def sample(decoder: Any) -> float:
        engine.lockstep = partial(lockstep, decoder=decoder)
        given = prompts, work["group"], Sampling(work["tokens"]), 0, STATISTICS
        took, found["rollouts"] = seconds(device, lambda: engine.generate(*given))
        return took

    def update(keep: float) -> float:
        weights = random_weights(found["rollouts"], keep)
        given = Update(found["rollouts"], *weights, Objective())
        took, found[keep] = seconds(device, lambda: engine.update(given, 1e-6))
        return took

    programs: dict[str, Callable[[], float]] = {
        "sampling, plain steps": lambda: sample(GrowingDecoder),
        "sampling, fixed shapes": lambda: sample(FixedDecoder),
        f"update, {KEEP:.0%}": lambda: update(KEEP),
        "update, dense": lambda: update(1.0),
    }
    turns = take_turns(programs, rounds)
    rows, shape = work["prompts"] * work["group"], read_shape(folder)
    planned = estimate_memory(recipe, shape, work["prompt"])
    memory = {}
    sparse = f"update, {KEEP:.0%}"
    for phase, name in {"sampling": "sampling, fixed shapes", "updating": sparse}.items():
        taken = peak_of(engine, programs[name])
        memory[phase] = {"measured": taken, "planned": planned.peak(phase)}
    if device == "cuda":
        memory["CUDA itself"] = {"measured": cuda_context(), "planned": CUDA_CONTEXT}
    read = bytes_of_step(shape, rows, work)
    return {
        "trained": trained,
        "seconds": {name: statistics.median(values) for name, values in turns.items()},
        "bytes a step": read,
        "steps": work["tokens"],
        "rows": rows,
        "operations": {
            f"update, {KEEP:.0%}": operations(shape, found[KEEP].tokens, KEEP, trained, work),
            "update, dense": operations(shape, found[1.0].tokens, 1.0, trained, work),
        },
        "memory": memory,
        "engine": engine.describe(),
    }


def bytes_of_step(shape: Any, rows: int, work: dict[str, int]) -> float:
    """Of the weights that a token meets, and of the keys and values before it, on average."""
    weights = 2 * (shape.layers * shape.block + shape.embedding)
    positions = work["prompt"] + work["tokens"] / 2
    return weights + 2.0 * 2 * rows * positions * shape.layers * shape.keys


def operations(shape: Any, tokens: int, keep: float, trained: str, work: dict[str, int]) -> float:
    """Of an update that ran `tokens` tokens: each product forward, for the gradient of its input,
    and of its weight where that is trained. Attention to what lies before, on average."""
    rows = work["prompts"] * work["group"]
    wanted = rows * work["tokens"] * keep
    times = 3 if trained == "full" else 2
    trunk = 2.0 * times * tokens * shape.layers * shape.block
    before = work["prompt"] + work["tokens"] / 2
    attention = 3 * 4.0 * tokens * before * shape.layers * shape.queries
    return trunk + attention + 2.0 * times * wanted * shape.embedding


def table(name: str, one: dict[str, Any], peaks: dict[str, float]) -> None:
    print(f"{name}, {one['trained']}")
    for phase, bytes_ in one["memory"].items():
        measured, planned = (bytes_[key] / 2**30 for key in ("measured", "planned"))
        ratio = f"ratio {planned / measured:.2f}"
        print(f"  {phase}: {measured:.2f} GiB at its peak, planned {planned:.2f}, {ratio}")
    for phase, took in one["seconds"].items():
        if phase in one["operations"]:
            share = one["operations"][phase] / took / peaks["operations/s"]
            text = f"{share:6.1%} of the rate of a product"
        else:
            bound = one["steps"] * one["bytes a step"] / peaks["bytes/s"]
            rate = one["rows"] * one["steps"] / took
            text = f"{bound / took:6.1%} of the bandwidth's bound, {rate:,.0f} tokens/s"
        print(f"  {phase:24s} {took:9.3f} s  {text}", flush=True)


def beside_trl(a: argparse.Namespace, folder: str, trained: str, work: dict[str, int]) -> Any:
    """Turns of ours, ours dense, TRL and TRL with vLLM."""
    find = "from importlib.util import find_spec as f; raise SystemExit(f('vllm') is None)"
    has_vllm = a.device != "cpu" and not subprocess.run([a.trl, "-c", find]).returncode
    given = {"trl": a.trl, "rounds": a.rounds, "device": a.device, "dtype": "bfloat16"}
    given |= {
        "full": trained == "full",
        "trl_rows": 0,
        "vllm": a.trl if has_vllm else None,
        "dense": True,
        "keep": KEEP,
        "beside": None,
    }
    turns = compare(folder, argparse.Namespace(**given, **work))
    return {"turns": turns, **show(turns)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=["0.5b", "1.5b"], default=["0.5b", "1.5b"])
    parser.add_argument("--trained", nargs="+", choices=TRAINED, default=TRAINED)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and little work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trl", help="the Python of the environment that TRL is installed in")
    parser.add_argument("--json", type=Path, help="write what was measured")
    a = parser.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU; --device cpu --tiny runs the same code")
    work = TINY if a.tiny else WORK
    peaks = in_fresh_process(limits, a.device, 512 if a.tiny else 8192)
    copied, multiplied = peaks["bytes/s"] / 1e9, peaks["operations/s"] / 1e12
    print(f"copy {copied:,.0f} GB/s, product {multiplied:,.1f} TFLOP/s")
    found: dict[str, Any] = {}
    for size in ["tiny"] if a.tiny else a.sizes:
        for trained in a.trained:
            with tempfile.TemporaryDirectory() as folder:
                make = partial(make_model, Path(folder), "torch", dtype="bfloat16", **SIZES[size])
                in_fresh_process(make)
                one = in_fresh_process(measure, folder, a.device, trained, work, a.rounds)
                table(size, one, peaks)
                if a.trl:
                    one["trl"] = beside_trl(a, folder, trained, work)
            found[f"{size}, {trained}"] = one
    if a.json:
        packages = ("torch", "transformers")
        gpu = torch.cuda.get_device_name() if a.device == "cuda" else None
        record(a.json, packages, gpu=gpu, work=work, limits=peaks, models=found)


if __name__ == "__main__":
    main()
