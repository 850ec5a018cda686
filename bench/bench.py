"""Speed and memory as ratios taken in one run: what statistics cost, what sparsity saves.

    python bench/bench.py [statistics | update]

`statistics` times a whole step (sampling and a 10 % update) with and without ICT's statistics, at
a vocabulary of 100 and of 151,936. `update` times a dense update against one of 10 % of the tokens
at 151,936 and takes the peak memory of each one's passes in a process of its own. Variants take
turns, one thread, medians of CPU seconds are shown; compare ratios, never the seconds of two
machines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from ictcli_torch.engine import TorchEngine
from transformers import Qwen2Config, Qwen2ForCausalLM

from ictcli.algorithm.objective import Objective
from ictcli.algorithm.selection import random_share
from ictcli.algorithm.weights import normalise
from ictcli.engine import Engine
from ictcli.engine.passes import Update
from ictcli.recipe.settings import EngineSettings, OptimizerSettings
from ictcli.tasks.chain.tokenizer import make_tokenizer
from ictcli.types import ROW_STATS, FloatArray, Rollouts, Sampling

SHAPES = {
    100: {"hidden": 128, "layers": 4, "heads": 4, "wide": 512, "prompts": 16, "group": 8},
    151_936: {"hidden": 896, "layers": 4, "heads": 14, "wide": 4864, "prompts": 2, "group": 4},
}
TOKENS = {100: 64, 151_936: 64}
WANTED = (*ROW_STATS, "uniqueness")


def make_model(folder: Path, vocabulary: int) -> Path:
    """A random Qwen2 of the shape's width; Qwen2.5-0.5B's own, with 4 of its 24 layers."""
    shape = SHAPES[vocabulary]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=shape["hidden"],
        intermediate_size=shape["wide"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=2,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def build(folder: Path) -> TorchEngine:
    settings = EngineSettings(backend="torch", device="cpu", dtype="float32", threads=1)
    return TorchEngine(str(folder), settings, OptimizerSettings())


def sample(engine: Engine, vocabulary: int, wanted: tuple[str, ...]) -> Rollouts:
    """Rollouts that never end early, so that every variant does the same work."""
    shape = SHAPES[vocabulary]
    prompts = [list(range(2, 18))] * shape["prompts"]
    return engine.generate(prompts, shape["group"], Sampling(TOKENS[vocabulary]), 0, wanted)


def weights_of(rollouts: Rollouts, keep: float) -> tuple[FloatArray, FloatArray]:
    """Weights of a random share, and advantages that leave no row out."""
    kept = random_share(rollouts.valid, keep, np.random.default_rng(0))
    weights = normalise(kept, rollouts.valid, "sequence", rollouts.tokens.shape[1])
    return weights, np.where(np.arange(len(rollouts)) % 2, 1.0, -1.0)


def update(engine: Engine, rollouts: Rollouts, keep: float) -> None:
    weights, advantage = weights_of(rollouts, keep)
    engine.update(rollouts, weights, advantage, Objective(), 1e-6)


def take_turns(variants: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each variant over interleaved rounds, behind one warm-up."""
    for run in variants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def bench_statistics(rounds: int) -> None:
    for vocabulary in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            engine = build(make_model(Path(folder), vocabulary))
        rollouts = sample(engine, vocabulary, ())
        found = take_turns(
            {
                "sampling": lambda e=engine, v=vocabulary: void(sample(e, v, ())),
                "sampling with statistics": lambda e=engine, v=vocabulary: void(
                    sample(e, v, WANTED)
                ),
                "update of 10 %": lambda e=engine, r=rollouts: update(e, r, 0.1),
            },
            rounds,
        )
        step = found["sampling"] + found["update of 10 %"]
        extra = found["sampling with statistics"] - found["sampling"]
        print(f"vocabulary {vocabulary:,}:")
        for name, value in found.items():
            print(f"  {name:26s} {value:8.3f} s")
        print(f"  statistics cost {extra / step:+.1%} of a step\n")


def void(value: object) -> None:
    del value


def bench_update(rounds: int) -> None:
    vocabulary = 151_936
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), vocabulary)
        peaks = {
            name: measure_peak(Path(folder), keep)
            for name, keep in {"dense": 1.0, "10 %": 0.1}.items()
        }
        engine = build(Path(folder))
    rollouts = made_up()
    found = take_turns(
        {
            "dense": lambda: update(engine, rollouts, 1.0),
            "10 %": lambda: update(engine, rollouts, 0.1),
        },
        rounds,
    )
    print(f"update of {len(rollouts)} x {rollouts.tokens.shape[1]} tokens, ", end="")
    print(f"vocabulary {vocabulary:,};")
    print("peak is that of the forward and backward passes:")
    for name, value in found.items():
        print(f"  {name:6s} {value:8.3f} s  peak {peaks[name] / 2**20:7.0f} MB")
    print(f"  time 10 % / dense    {found['10 %'] / found['dense']:.2f}")
    print(f"  memory 10 % / dense  {peaks['10 %'] / peaks['dense']:.2f}")


def measure_peak(folder: Path, keep: float) -> int:
    """Peak resident bytes of a fresh process that loads the model and makes the passes of one
    update, forward and backward."""
    command = [sys.executable, __file__, "peak", "--model", str(folder), "--keep", str(keep)]
    return int(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def peak(folder: Path, keep: float) -> None:
    engine, rollouts = build(folder), made_up()
    weights = weights_of(rollouts, keep)
    engine._gradient(Update(rollouts, *weights, Objective()))
    print(engine.peak_memory())


def made_up(T: int = 128) -> Rollouts:
    """Rollouts of random tokens of the large vocabulary: an update does not care who wrote them."""
    shape = SHAPES[151_936]
    B = shape["prompts"] * shape["group"]
    rng = np.random.default_rng(0)
    return Rollouts(
        prompts=(tuple(range(2, 18)),) * shape["prompts"],
        group=shape["group"],
        tokens=rng.integers(0, 151_936, (B, T)).astype(np.int32),
        lengths=np.full(B, T, dtype=np.int32),
        finished=np.zeros(B, dtype=bool),
        logp=np.zeros((B, T), dtype=np.float32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=["statistics", "update", "peak"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.what == "peak":
        peak(asked.model, asked.keep)
        return
    if asked.what != "update":
        bench_statistics(asked.rounds)
    if asked.what != "statistics":
        bench_update(asked.rounds)


if __name__ == "__main__":
    main()
