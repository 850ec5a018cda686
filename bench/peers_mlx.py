"""The MLX engine against what one would use instead, on the same work, in one run.

    pip install "mlx-lm[cpu]" inductive-mlxrl mlx-lm-lora && pip install -e .
    python bench/peers_mlx.py [--rounds 5] [--hidden 128 --layers 4 --vocab 1024] [--json FILE]

A random Qwen2 with LoRA of rank 8; G rollouts of one prompt: `plain` (a short prompt, none ends),
`early` (stop tokens among the first drawn), `prefix` (a prompt of 512 tokens). Ours samples with
ICT's statistics, which no peer takes. Then one gradient step on the rollouts of `plain`, dense and
with 10 % of the tokens kept; a pass is one row in ours and in mlx-lm-lora. Programs take turns; all
rounds' tokens by all their seconds, of the clock and of the CPU, fairer on a shared machine,
and the peak of MLX's allocator over what is held at rest. Compare ratios, never two machines.
"""

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from harness import STATISTICS, make_model, random_weights, record, take_turns
from ictcli_mlx.engine import MlxEngine
from mlx_lm import batch_generate
from mlx_lm.sample_utils import make_sampler
from mlx_lm_lora.trainer import grpo_trainer
from mlxrl.algo import GRPOAlgorithm
from mlxrl.rollout.naive import SamplingConfig, generate_group_rollouts
from mlxrl.rollout.optimized import generate_prefix_cached_group_rollouts
from mlxrl.train import batch_from_rollouts, optimizer_step

from ictcli.algorithm.objective import Objective
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import Sampling

GROUP = 8
SCENES = {"plain": (64, 128, ()), "early": (64, 128, tuple(range(2, 10))), "prefix": (512, 64, ())}
"""Prompt tokens, response tokens, stop tokens."""


class Tokens:
    """A tokenizer for programs that insist on text: a prompt is its ids, spelt out."""

    chat_template = None
    pad_token_id = 0

    def __init__(self, stops: tuple[int, ...]) -> None:
        self.eos_token_ids = stops
        self.eos_token_id = stops[0] if stops else None

    def encode(self, text: str, **options: Any) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Any, **options: Any) -> str:
        return " ".join(str(int(i)) for i in ids)


@dataclass(frozen=True)
class Turn:
    tokens: int
    seconds: float
    cpu: float
    peak: float
    """Bytes of MLX's allocator over what is held at rest."""


def measured(engine: MlxEngine, program: Callable[[], int]) -> Turn:
    """One turn of a program, which returns its number of tokens."""
    mx.clear_cache()
    engine.memory.forget_peak()  # ours resets MLX's own mark
    held, silent = mx.get_active_memory(), io.StringIO()
    began, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        tokens = program()
    mx.synchronize()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Turn(tokens, seconds, cpu, engine.peak_memory() - held)


def samplers(engine: MlxEngine, scene: str) -> dict[str, Callable[[], int]]:
    length, T, stops = SCENES[scene]
    prompt = [10 + i % 8 for i in range(length)]
    text, model, named = " ".join(map(str, prompt)), engine.model, Tokens(stops)
    cut = SamplingConfig(max_tokens=T, temperature=1.0, top_p=1.0)
    sampling = Sampling(T, stop_ids=stops)
    seeds = iter(range(10**9))

    def ours(wanted: tuple[str, ...]) -> int:
        return int(engine.generate([prompt], GROUP, sampling, next(seeds), wanted).lengths.sum())

    def mlxrl() -> int:
        completions = generate_prefix_cached_group_rollouts(
            model, named, [text], GROUP, cut, seed=next(seeds), use_chat_template=False,
            batch_groups=True,
        )  # fmt: skip
        return sum(len(c.completion_tokens) for c in completions)

    def mlxrl_command() -> int:
        completions = generate_group_rollouts(
            model, named, [text], GROUP, cut, seed=next(seeds), use_chat_template=False
        )
        return sum(len(c.completion_tokens) for c in completions)

    def mlx_lm_lora(side_by_side: int) -> int:
        completions, _, _ = grpo_trainer.generate_grpo(
            model, named, [prompt], T, GROUP, side_by_side, "", 1.0, 0.0, 0, 0.0
        )
        return sum(completion.size for completion in completions)

    def mlx_lm() -> int:
        batch = batch_generate(
            model, named, [list(prompt)] * GROUP, max_tokens=T, return_token_ids=True,
            return_logprobs=True, sampler=make_sampler(1.0), completion_batch_size=GROUP,
            prefill_batch_size=GROUP,
        )  # fmt: skip
        return sum(map(len, batch.token_ids))

    return {
        "ours, with statistics": lambda: ours(STATISTICS),
        "ours, without": lambda: ours(()),
        "mlxrl, its command's path": mlxrl_command,
        "mlxrl, batched": mlxrl,
        "mlx-lm-lora, batched": lambda: mlx_lm_lora(GROUP),
        "mlx-lm-lora, as it ships": lambda: mlx_lm_lora(1),
        "mlx_lm.batch_generate": mlx_lm,
    }


def updaters(engine: MlxEngine, folder: Path) -> dict[str, Callable[[], int]]:
    length, T, _ = SCENES["plain"]
    prompt = [10 + i % 8 for i in range(length)]
    rollouts = engine.generate([prompt], GROUP, Sampling(T), 0)
    rewards = [float(row % 2) for row in range(GROUP)]
    size = GROUP * (length + T)

    def ours(keep: float) -> int:
        engine.update(Update(rollouts, *random_weights(rollouts, keep), Objective()), 1e-5)
        return size

    text, named = " ".join(map(str, prompt)), Tokens(())
    cut = SamplingConfig(max_tokens=T, temperature=1.0, top_p=1.0)
    completions = generate_prefix_cached_group_rollouts(
        engine.model, named, [text], GROUP, cut, seed=1, use_chat_template=False, batch_groups=True
    )
    rule, adam = GRPOAlgorithm(), optim.Adam(learning_rate=1e-5)

    def mlxrl() -> int:
        batch = batch_from_rollouts(
            model=engine.model, completions=completions, rewards=rewards, group_size=GROUP,
            pad_token_id=0, algorithm=rule, compute_reference=False,
        )  # fmt: skip
        optimizer_step(
            model=engine.model, optimizer=adam, batch=batch, beta=0.0, pad_token_id=0,
            algorithm=rule,
        )  # fmt: skip
        return size

    drawn = [mx.array(row) for row in rollouts.tokens]

    def recorded(**options: Any) -> Any:
        return drawn, [named.decode(row.tolist()) for row in drawn], [0] * GROUP

    def mlx_lm_lora() -> int:
        """A step of its trainer, its sampling replaced by the recorded rollouts."""
        args = grpo_trainer.GRPOTrainingArgs(
            batch_size=1, iters=1, val_batches=0, steps_per_report=10**9, steps_per_eval=10**9,
            steps_per_save=10**9, max_seq_length=1024, group_size=GROUP, beta=0.0,
            adapter_file=str(folder / "peer.safetensors"), max_completion_length=T,
            temperature=1.0, top_p=0.0, top_k=0, min_p=0.0,
        )  # fmt: skip
        grpo_trainer.generate_grpo = recorded
        grpo_trainer.train_grpo(
            engine.model, None, named, optim.Adam(learning_rate=mx.array(1e-5)),
            [(prompt, [5], text, "5", None)] * 2, reward_funcs=[lambda *a, **k: rewards],
            args=args,
        )  # fmt: skip
        return size

    return {
        "ours, 10 % kept": lambda: ours(0.1),
        "ours, dense": lambda: ours(1.0),
        "mlxrl": mlxrl,
        "mlx-lm-lora": mlx_lm_lora,
    }


def compare(
    title: str, engine: MlxEngine, programs: dict[str, Callable[[], int]], rounds: int
) -> dict[str, dict[str, float]]:
    """Let the programs take turns, and print and return what each took."""
    timed = {name: partial(measured, engine, program) for name, program in programs.items()}
    rows = dict[str, dict[str, float]]()
    for name, turns in take_turns(timed, rounds).items():
        tokens = sum(turn.tokens for turn in turns)
        rows[name] = {
            "tokens/s": tokens / sum(turn.seconds for turn in turns),
            "tokens/CPU s": tokens / sum(turn.cpu for turn in turns),
            "peak MB": max(turn.peak for turn in turns) / 1e6,
        }
    peers = [row for name, row in rows.items() if not name.startswith("ours")]
    print(f"\n{title}: and what it is of the best peer's")
    for name, row in rows.items():
        cells = [f"  {name:28s}"]
        for unit, value in list(row.items()):
            best = (min if unit == "peak MB" else max)(peer[unit] for peer in peers)
            row[f"{unit}, of the best peer's"] = value / best
            cells.append(f"{value:8.1f} {unit} {value / best:5.2f}")
        print("   ".join(cells), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--json", type=Path, help="write what was found")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = make_model(
            Path(name), "mlx", hidden=a.hidden, layers=a.layers, heads=max(a.hidden // 64, 4),
            intermediate=3 * a.hidden, vocabulary=a.vocab,
        )  # fmt: skip
        engine = MlxEngine(
            str(folder),
            EngineSettings(backend="mlx", micro_tokens=192),
            OptimizerSettings(),
            NewAdapters(kind="lora", rank=8, alpha=16),
        )
        engine.model.eval()
        found = dict[str, dict[str, dict[str, float]]]()
        for scene in SCENES:
            rounds = a.rounds * (4 if scene == "early" else 1)  # lengths are drawn there
            found[scene] = compare(scene, engine, samplers(engine, scene), rounds)
        found["update"] = compare("update", engine, updaters(engine, folder), a.rounds)
    if a.json:
        record(a.json, ("mlx", "mlx-lm", "inductive-mlxrl", "mlx-lm-lora"), **found)
    print(f"\nmlx {mx.__version__}, python {sys.version.split()[0]}, {mx.default_device()}")


if __name__ == "__main__":
    main()
