"""What the benchmarks share: random models, an update's weights, turns, processes of their own."""

import json
import multiprocessing
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from chain_texts import make_tokenizer

from ictcli.algorithm.selection import random_share
from ictcli.algorithm.weights import normalise
from ictcli.types import ROW_STATS, FloatArray, Rollouts

T = TypeVar("T")

STATISTICS = (*ROW_STATS, "uniqueness")
"""What ICT takes while it samples."""
Sizes = dict[str, Any]
QWEN: Sizes = {
    "hidden": 896,
    "layers": 24,
    "heads": 14,
    "intermediate": 4864,
    "vocabulary": 151_936,
}
"""The sizes of Qwen2.5-0.5B."""


def make_model(
    folder: Path,
    engine: str,
    *,
    hidden: int,
    layers: int,
    heads: int,
    intermediate: int,
    vocabulary: int,
    kv: int = 2,
    bits: int = 0,
    dtype: str = "float32",
    tokenizer: Any = None,
    **more: Any,
) -> Path:
    """A random Qwen2 with tied embeddings and, by default, the chain tokenizer, written by
    transformers (`torch`) or mlx-lm (`mlx`), which quantises to `bits` where they are not 0."""
    config: dict[str, Any] = {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "rms_norm_eps": 1e-6,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32_768,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        **more,
    }
    (tokenizer or make_tokenizer()).save_pretrained(folder)
    if engine == "torch":
        import torch
        import transformers

        torch.manual_seed(0)
        ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
        resolved = transformers.AutoConfig.for_model(**{**ends, **config})
        model = transformers.AutoModelForCausalLM.from_config(resolved)
        model.to(getattr(torch, dtype)).save_pretrained(folder)
        return folder
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_lm.models.qwen2 import Model, ModelArgs

    mx.random.seed(0)
    model = Model(ModelArgs.from_dict(config))
    if bits:
        nn.quantize(model, group_size=64, bits=bits)
        config["quantization"] = {"group_size": 64, "bits": bits}
    weights: Any = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def random_weights(rollouts: Rollouts, keep: float) -> tuple[FloatArray, FloatArray]:
    """Weights (B, T) of a random share of the tokens, and advantages (B,) that leave no row out."""
    kept = random_share(rollouts.valid, keep, np.random.default_rng(0))
    weights = normalise(kept, rollouts.valid, "sequence", rollouts.tokens.shape[1])
    return weights, np.where(np.arange(len(rollouts)) % 2, 1.0, -1.0)


def take_turns(programs: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """What each program returns in each round; the programs take turns. A first round warms up and
    is left out."""
    results: dict[str, list[T]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, program in programs.items():
            result = program()
            if turn:
                results[name].append(result)
    return results


def medians(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each variant."""

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def seconds() -> float:
            started = time.process_time()
            work()
            return time.process_time() - started

        return seconds

    turns = take_turns({name: timed(work) for name, work in variants.items()}, rounds)
    return {name: statistics.median(seconds) for name, seconds in turns.items()}


def in_fresh_process(work: Callable[..., T], *arguments: object) -> T:
    """`work(*arguments)` in a process that has done nothing else, for its peak of memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def peak_of(engine: Any, work: Callable[[], object]) -> int:
    """The peak of MLX's allocator; for torch of this process's resident set, or on a GPU of its
    allocator's tensors and of what CUDA itself has taken."""
    from ictcli.engine.budget import forget_peak, peak_rss

    if engine.device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        work()
        return engine.peak_memory() + cuda_context()
    if engine.settings.backend == "torch":
        forget_peak()
        work()
        return peak_rss()
    import mlx.core as mx

    mx.synchronize()
    mx.clear_cache()
    engine.memory.forget_peak()
    work()
    return engine.peak_memory()


def cuda_context() -> int:
    """Bytes of a GPU that CUDA has taken beside PyTorch's allocator."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def record(path: Path, packages: Sequence[str], **found: Any) -> None:
    """Write what was found with the command, the machine and the versions that it was found on."""
    cpu = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else None
    about = {
        "command": " ".join(["python", "bench/" + Path(sys.argv[0]).name, *sys.argv[1:]]),
        "machine": f"{model[1] if model else platform.processor()}, {platform.system()}",
        "versions": {name: version(name) for name in ("ictcli", *packages)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, **found}, indent=1) + "\n")
