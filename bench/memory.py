"""The memory plan of `ictcli train --dry-run` against what the MLX engine takes.

    pip install -e ".[mlx]"
    python bench/memory.py [NAME ...]

Random Qwen2 models; peaks of MLX's allocator over sampling, evaluating (other rows, no statistics)
and one optimiser update, each behind a warm-up. What the plan's constants were set by: a ratio
within 0.8 and 1.2 is what is aimed at.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from ictcli_mlx.engine import MlxEngine
from mlx.utils import tree_flatten
from mlx_lm.models.qwen2 import Model, ModelArgs

from ictcli.algorithm.selection import random_share
from ictcli.algorithm.weights import normalise
from ictcli.planning.parts import Plan, plan
from ictcli.planning.shapes import read_shape
from ictcli.recipe import Recipe, check
from ictcli.step import wanted_stats
from ictcli.tasks.chain.tokenizer import make_tokenizer
from ictcli.types import Sampling

Table = dict[str, Any]

SMALL = {"hidden": 256, "layers": 8, "heads": 4, "kv": 2, "wide": 768, "vocabulary": 1024}
LONG = {"prompts": 2, "group": 4, "max_tokens": 768, "micro_tokens": 2048}
WIDE = {"hidden": 896, "layers": 2, "heads": 14, "kv": 2, "wide": 4864, "vocabulary": 151_936}
SHORT = {"prompts": 2, "group": 8, "max_tokens": 32, "micro_tokens": 512}
BRIEF = SHORT | {"prompts": 1, "micro_tokens": 256}
LORA = {"adapter": {"kind": "lora", "rank": 16}}
DORA = {"adapter": {"kind": "dora", "rank": 16}}

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
    "wide, reference": (WIDE, SHORT | {"kl": 0.01}, 64),
    "wide, lora": (WIDE | {"layers": 4}, SHORT | LORA, 64),
    "wide, lora, checkpointing": (
        WIDE | {"layers": 4},
        SHORT | LORA | {"gradient_checkpointing": True, "micro_tokens": 2048},
        64,
    ),
    "wide, 4 bits, lora": (WIDE | {"bits": 4}, SHORT | LORA, 64),
    "wide, 4 bits, dora": (WIDE | {"bits": 4}, SHORT | DORA, 64),
    "bfloat16": (SMALL | {"vocabulary": 8192}, BRIEF | {"dtype": "bfloat16"}, 64),
    "bfloat16, lora": (SMALL | {"vocabulary": 8192}, BRIEF | LORA | {"dtype": "bfloat16"}, 64),
}
"""By name: sizes of a model, settings of a recipe, tokens of a prompt."""

ENGINE = ("micro_tokens", "gradient_checkpointing", "dtype", "rows", "compile")


def make_model(
    folder: Path,
    *,
    hidden: int,
    layers: int,
    heads: int,
    kv: int,
    wide: int,
    vocabulary: int,
    bits: int = 0,
) -> Path:
    """A random Qwen2 with tied embeddings, quantised to `bits` where they are not 0."""
    about: Table = {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": wide,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "rms_norm_eps": 1e-6,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32768,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
    }
    mx.random.seed(0)
    model = Model(ModelArgs.from_dict(about))
    if bits:
        nn.quantize(model, group_size=64, bits=bits)
        about["quantization"] = {"group_size": 64, "bits": bits}
    weights: Any = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(about))
    make_tokenizer().save_pretrained(folder)
    return folder


def make_recipe(folder: Path, given: Table) -> Recipe:
    """A recipe that keeps 10 % of the tokens, on the CPU, unless `given` says otherwise."""
    engine = {"backend": "mlx", "device": "cpu"}
    engine |= {key: value for key, value in given.items() if key in ENGINE}
    rest = {key: value for key, value in given.items() if key not in ENGINE}
    fixed = {"model": str(folder), "task": "chain", "method": "ict", "steps": 1, "engine": engine}
    return check(fixed | {"eval": {"problems": 2, "n": 4}} | rest, "bench")


def measure(recipe: Recipe, prompt_tokens: int) -> dict[str, int]:
    """Peak bytes of each phase of a plan: prompts of one length, responses that never end."""
    engine = MlxEngine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
    if recipe.kl > 0:
        engine.keep_reference()
    prompt = [2 + i % 14 for i in range(prompt_tokens)]
    sampling, wanted = Sampling(recipe.max_tokens, recipe.temperature), wanted_stats(recipe)

    def peak(work: Callable[[], object]) -> int:
        mx.synchronize()
        mx.clear_cache()
        mx.reset_peak_memory()
        engine.memory.peak = 0
        work()
        return engine.peak_memory()

    rollouts = engine.generate([prompt] * recipe.prompts, recipe.group, sampling, 0, wanted)
    kept = random_share(rollouts.valid, recipe.keep, np.random.default_rng(0))
    weights = normalise(kept, rollouts.valid, "sequence", recipe.max_tokens)
    advantage = np.where(np.arange(len(rollouts)) % 2, 1.0, -1.0)

    def update() -> None:
        engine.update(rollouts, weights, advantage, recipe.objective, 1e-6)

    update()  # what AdamW holds is made by its first step
    prompts = [prompt] * recipe.prompts
    return {
        "sampling": peak(lambda: engine.generate(prompts, recipe.group, sampling, 1, wanted)),
        "evaluating": peak(
            lambda: engine.generate([prompt] * recipe.eval.problems, recipe.eval.n, sampling, 2)
        ),
        "updating": peak(update),
    }


def show(name: str, planned: Plan, measured: dict[str, int]) -> float:
    """Print a case; gives its ratio furthest from 1."""
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
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    worst: list[float] = []
    for name in parser.parse_args().names or CASES:
        sizes, given, prompt_tokens = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            recipe = make_recipe(make_model(Path(folder), **sizes), given)
            planned = plan(recipe, read_shape(folder), gpu=False, prompt=prompt_tokens)
            worst.append(show(name, planned, measure(recipe, prompt_tokens)))
        gc.collect()  # a model refers to itself
    print(f"\nratios from {min(worst):.2f} to {max(worst):.2f} (the worst of each)")
    print(f"mlx {version('mlx')}, python {sys.version.split()[0]}, {mx.default_device()}")


if __name__ == "__main__":
    main()
