"""What the builders of the built-in models share: the optimiser's loop, and the folder they write.

One thread, so that a seed gives the same model on the same machine and library versions.
"""

# pyright: reportUnknownMemberType=false
# torch and transformers annotate only a part of their parameters.

import argparse
import hashlib
import json
import math
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import tokenizers
import torch
import transformers
from torch import Tensor
from transformers import GenerationConfig

from ictcli.engine import Engine, build_engine
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.tasks.prompts import decode
from ictcli.tasks.task import Domain
from ictcli.types import IntArray, Problem, Rollouts, Sampling

B = TypeVar("B")
Pairs = list[tuple[str, str]]
"""Responses, each after its prompt."""

SAMPLES = 32
"""Responses a problem by which a base model is measured."""
STATS = ("entropy", "uniqueness")
ON_CPU = EngineSettings(backend="torch", device="cpu", threads=1)


@dataclass(frozen=True)
class Recipe:
    """How a base model is pre-trained.

    `right` is the probability of the right choice in the solutions it is taught, `rows` the number
    of problems in a batch, and `learning_rate` the peak of a linear warm-up and a cosine decay to
    zero.
    """

    steps: int
    seed: int
    right: float
    rows: int
    learning_rate: float
    warmup: int
    weight_decay: float


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then cosine decay to zero at the last step."""
    warm = min(1.0, (step + 1) / recipe.warmup)
    return recipe.learning_rate * warm * 0.5 * (1.0 + math.cos(math.pi * step / recipe.steps))


@dataclass(frozen=True)
class Built(Generic[B]):
    """What a builder makes: a model with random weights, its endless batches and their loss, its
    tokenizer, and the type that its weights are saved in."""

    make_model: Callable[[], Any]
    batches: Iterator[B]
    loss: Callable[[Any, B], Tensor]
    tokenizer: Any
    rope_theta: float
    dtype: torch.dtype = torch.float32


def pretrain(built: Built[Any], recipe: Recipe, every: int = 1000) -> Any:
    """Train from random weights; print the mean loss of every `every` steps."""
    torch.manual_seed(recipe.seed)
    model = built.make_model()
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=(0.9, 0.98), weight_decay=recipe.weight_decay, fused=True
    )
    losses: list[float] = []
    start = time.monotonic()
    for step, batch in zip(range(recipe.steps), built.batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss = built.loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % every == 0:
            took, loss = time.monotonic() - start, sum(losses) / len(losses)
            print(f"step {step + 1}/{recipe.steps}  {took:.0f} s  loss {loss:.4f}", flush=True)
            losses.clear()
    return model.eval()


def save(model: Any, tokenizer: Any, folder: Path, rope_theta: float) -> None:
    """Write model and tokenizer into `folder` in Hugging Face layout.

    `rope_theta` is repeated at the top level of config.json, where mlx-lm looks for it.
    """
    ends = {"eos_token_id": model.config.eos_token_id, "pad_token_id": model.config.pad_token_id}
    model.generation_config = GenerationConfig(**ends)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text()) | {"rope_theta": rope_theta}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for path in folder.iterdir():
        path.chmod(0o644)


def build(
    built: Built[Any], recipe: Recipe, out: Path, measure: Callable[[Engine], dict[str, Any]]
) -> dict[str, Any]:
    """Pre-train, save and measure: written beside `out`, which is replaced at the end. Returns what
    build.json says: the recipe, the versions, the measurements and the weights' checksum."""
    start = time.monotonic()
    model = pretrain(built, recipe)
    seconds = time.monotonic() - start
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save(model.to(built.dtype), built.tokenizer, partial, built.rope_theta)
    weights = (partial / "model.safetensors").read_bytes()
    stated = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "recipe": asdict(recipe),
        "pretraining_seconds": round(seconds),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "heldout": measure(build_engine(str(partial), ON_CPU, OptimizerSettings())),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    (partial / "build.json").write_text(json.dumps(stated, indent=2) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    return stated


@dataclass(frozen=True)
class Measurement:
    """What a base model answers to held-out problems: greedily, and sampled at temperature 1."""

    problems: int
    samples: int
    greedy: float
    pass_at_1: float
    pass_at_4: float
    pass_at_8: float
    pass_at_32: float


def sampled(
    engine: Engine, asked: Sequence[Problem], domain: Domain, longest: int, n: int
) -> tuple[IntArray, Pairs, Rollouts]:
    """How many of `n` responses to each problem are right, the responses, and the rollouts: of
    several with `STATS`, a single one is greedy."""
    prompts = [engine.tokenizer(problem.prompt)["input_ids"] for problem in asked]
    sampling = Sampling(longest, 1.0 if n > 1 else 0.0, stop_ids=engine.stop_ids)
    wanted = STATS if n > 1 else ()
    rollouts = engine.generate(prompts, n, sampling, seed=0, wanted=wanted)
    texts = decode(engine.tokenizer, rollouts)
    right = [verdict.status == "correct" for verdict in domain.judge(asked, texts)]
    pairs = [(asked[row // n].prompt, text) for row, text in enumerate(texts)]
    return np.array(right).reshape(len(asked), n).sum(axis=1), pairs, rollouts


def measured(
    engine: Engine, asked: Sequence[Problem], domain: Domain, longest: int
) -> tuple[Measurement, Pairs, Rollouts]:
    """The figures, and the responses and rollouts that were sampled for them."""
    greedy, _, _ = sampled(engine, asked, domain, longest, 1)
    right, pairs, rollouts = sampled(engine, asked, domain, longest, SAMPLES)
    at = {f"pass_at_{k}": float(pass_at_k(SAMPLES, right, k).mean()) for k in (1, 4, 8, 32)}
    return Measurement(len(asked), SAMPLES, float(greedy.mean()), **at), pairs, rollouts


def rounded(measurement: Any) -> dict[str, float]:
    """A dataclass of figures as build.json has it."""
    return {key: round(value, 4) for key, value in asdict(measurement).items()}


def parser_of(prog: str, description: str, out: Path) -> argparse.ArgumentParser:
    """The options that all builders have."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=out, help="folder to replace")
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("--seed", type=int, help="of weights and data")
    parser.add_argument("--right", type=float, help="probability of the right choice")
    parser.add_argument("--rows", type=int, help="problems in a batch")
    parser.add_argument("--learning-rate", type=float, help="peak learning rate")
    return parser
