"""The memory estimate of `ictcli train --dry-run` beside what the engines take.

    pip install -e ".[mlx,torch]"
    python bench/memory.py [--engine torch] [NAME ...]

Random Qwen2 models; the peaks of sampling, evaluating (other rows, no statistics) and one optimiser
update, each after a warm-up. For MLX the peak is its allocator's; for torch on a CPU it is the
resident set of a fresh process on Linux, whose high-water mark is reset before each phase, and
whose allocator maps every large array for itself: its heap's fragments differ from run to run. The
constants of `backends/*/plan.py` were set by this; the aim is a ratio between 0.8 and 1.2.
"""

import argparse
import gc
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import QWEN, in_fresh_process, make_model, peak_of, random_weights

from ictcli.engine import build_engine
from ictcli.engine.shape import read_shape
from ictcli.engine.update import Update
from ictcli.planning.estimate import MemoryEstimate, estimate_memory
from ictcli.recipe import Recipe, check
from ictcli.types import Rollouts, Sampling

Table = dict[str, Any]

SMALL = {"hidden": 256, "layers": 8, "heads": 4, "intermediate": 768, "vocabulary": 1024}
LONG = {"prompts": 2, "group": 4, "max_tokens": 768, "micro_tokens": 2048}
WIDE = QWEN | {"layers": 2}
SHORT = {"prompts": 2, "group": 8, "max_tokens": 32, "micro_tokens": 512}
BRIEF = SHORT | {"prompts": 1, "micro_tokens": 256}
LORA = {"adapter": {"kind": "lora", "rank": 16}}

CASES: dict[str, tuple[Table, Table, int]] = {
    "long": (SMALL, LONG, 256),
    "long, checkpointing": (SMALL, LONG | {"gradient_checkpointing": True}, 256),
    "long, lora": (SMALL, LONG | LORA, 256),
    "long, lora, checkpointing": (SMALL, LONG | LORA | {"gradient_checkpointing": True}, 256),
    "long, lora, 2 blocks": (
        SMALL,
        LONG | {"adapter": {"kind": "lora", "rank": 16, "layers": 2}},
        256,
    ),
    "long, compiled": (SMALL, LONG | {"compile": "on"}, 200),
    "many short rows": (SMALL, SHORT | {"prompts": 16, "micro_tokens": 2048}, 64),
    "wide": (WIDE, SHORT, 64),
    "wide, dense, entropy bonus": (WIDE, SHORT | LORA | {"keep": 1.0, "entropy": 0.001}, 64),
    "wide, untied": (WIDE | {"tie_word_embeddings": False}, SHORT, 64),
    "wide, reference": (WIDE, SHORT | {"kl": 0.01}, 64),
    "wide, lora": (WIDE | {"layers": 4}, SHORT | LORA, 64),
    "wide, lora, checkpointing": (
        WIDE | {"layers": 4},
        SHORT | LORA | {"gradient_checkpointing": True, "micro_tokens": 2048},
        64,
    ),
    "wide, 4 bits, lora": (WIDE | {"bits": 4}, SHORT | LORA, 64),
    "bfloat16": (SMALL | {"vocabulary": 8192}, BRIEF | {"dtype": "bfloat16"}, 64),
    "bfloat16, lora": (SMALL | {"vocabulary": 8192}, BRIEF | LORA | {"dtype": "bfloat16"}, 64),
}
"""By name: sizes of a model, settings of a recipe, tokens of a prompt."""

DEEP = {"hidden": 256, "layers": 12, "heads": 4, "intermediate": 1024, "vocabulary": 256}
HEAD = {"hidden": 64, "layers": 1, "heads": 2, "kv": 1, "intermediate": 128, "vocabulary": 151_936}
ONCE = {"prompts": 2, "group": 4, "max_tokens": 64, "micro_tokens": 2048, "keep": 1.0}
LENGTHY = {"prompts": 1, "group": 8, "max_tokens": 64, "micro_tokens": 4096}
DENSE = {"prompts": 4, "group": 8, "max_tokens": 32, "micro_tokens": 4096, "keep": 1.0}
TORCH_CASES: dict[str, tuple[Table, Table, int]] = {
    "small, lora": (
        DEEP | {"vocabulary": 32768},
        {"prompts": 1, "group": 8, "max_tokens": 32, "micro_tokens": 2048, "keep": 1.0} | LORA,
        64,
    ),
    "deep": (DEEP, LENGTHY, 448),
    "deep, lora": (DEEP, LENGTHY | LORA, 448),
    "deep, checkpointing": (DEEP, LENGTHY | {"gradient_checkpointing": True}, 448),
    "deep, lora, checkpointing": (DEEP, LENGTHY | LORA | {"gradient_checkpointing": True}, 448),
    "head": (HEAD, DENSE, 16),
    "head, entropy bonus": (HEAD, DENSE | {"entropy": 0.001, "temperature": 0.6}, 16),
    "wide": (WIDE, SHORT, 64),
    "qwen2.5-0.5b, lora": (QWEN, ONCE | LORA, 64),
    "qwen2.5-0.5b, lora, checkpointing": (
        QWEN,
        ONCE | LORA | {"gradient_checkpointing": True},
        64,
    ),
}
"""The same for PyTorch; the last two take some 6 GiB."""

ENGINE = ("device", "micro_tokens", "gradient_checkpointing", "dtype", "rows", "compile")


def make_recipe(folder: Path, engine_name: str, settings: Table) -> Recipe:
    """A recipe that keeps 10 % of the tokens, on the CPU, unless `settings` say otherwise."""
    engine = {"backend": engine_name, "device": "cpu"}
    engine |= {key: value for key, value in settings.items() if key in ENGINE}
    rest = {key: value for key, value in settings.items() if key not in ENGINE}
    fixed = {"model": str(folder), "task": "chain", "method": "ict", "steps": 1, "engine": engine}
    return check(fixed | {"eval": {"problems": 2, "n": 4}} | rest, "bench")


def measure(recipe: Recipe, prompt_tokens: int) -> dict[str, int]:
    """Peak bytes of each phase, with prompts of one length and responses that never end."""
    engine = build_engine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
    if recipe.kl > 0:
        engine.keep_reference()
    prompt = [2 + i % 14 for i in range(prompt_tokens)]
    sampling = Sampling(recipe.max_tokens, recipe.temperature)

    def sample(seed: int) -> Rollouts:
        prompts, stats = [prompt] * recipe.prompts, recipe.wanted_stats
        return engine.generate(prompts, recipe.group, sampling, seed, stats)

    rollouts = sample(0)
    weights = random_weights(rollouts, recipe.keep)

    def evaluate() -> None:
        engine.generate([prompt] * recipe.eval.problems, recipe.eval.n, sampling, 2)

    def update() -> None:
        engine.update(Update(rollouts, *weights, recipe.objective), 1e-6)

    update()  # AdamW allocates its moments in the first step
    phases = {"sampling": lambda: sample(1), "evaluating": evaluate, "updating": update}
    return {phase: peak_of(engine, work) for phase, work in phases.items()}


def show(name: str, planned: MemoryEstimate, measured: dict[str, int]) -> float:
    """Print a case; returns its ratio furthest from 1."""
    ratios = {phase: planned.peak(phase) / took for phase, took in measured.items()}
    print(f"{name}: {planned.shape.parameters:,} parameters, {planned.trained:,} trained")
    for phase, took in measured.items():
        print(
            f"  {phase:10s} planned {planned.peak(phase) / 2**20:8.0f} MiB  "
            f"measured {took / 2**20:8.0f} MiB  ratio {ratios[phase]:.2f}",
            flush=True,
        )
    return max(ratios.values(), key=lambda ratio: abs(ratio - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--engine", choices=("mlx", "torch"), default="mlx")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES | TORCH_CASES))
    options = parser.parse_args()
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"  # for the fresh processes
    cases, worst = TORCH_CASES if options.engine == "torch" else CASES, list[float]()
    for name in options.names or cases:
        sizes, settings, prompt_tokens = cases[name]
        with tempfile.TemporaryDirectory() as temporary:
            folder = make_model(Path(temporary), options.engine, **sizes)
            recipe = make_recipe(folder, options.engine, settings)
            planned = estimate_memory(recipe, read_shape(temporary), prompt_tokens)
            if options.engine == "torch":
                took = in_fresh_process(measure, recipe, prompt_tokens)
            else:
                took = measure(recipe, prompt_tokens)
            worst.append(show(name, planned, took))
        gc.collect()  # a model refers to itself
    print(f"\nratios from {min(worst):.2f} to {max(worst):.2f} (the worst of each)")
    print(f"{options.engine} {version(options.engine)}, python {sys.version.split()[0]}, on a CPU")


if __name__ == "__main__":
    main()
