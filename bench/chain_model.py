"""Pre-train the base model of the task `chain`, measure it and save it in Hugging Face layout.

    python bench/chain_model.py --out DIR

The model is a tiny Qwen2 that has seen sound solutions whose choices of operator are right
only some of the time. It computes and copies almost without error and chooses badly: what
is left to learn by reinforcement is at the fork tokens. One thread, so that a seed gives
the same model on the same machine and library versions.
"""

# pyright: reportUnknownMemberType=false
# torch and transformers annotate only a part of their parameters.

import argparse
import hashlib
import json
import math
import platform
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from ictcli.engine import build_engine
from ictcli.engine.models import BUILTIN
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.rewards.builtin import chain
from ictcli.tasks.chain.problem import (
    CHAIN,
    CHAIN_LONG,
    forks,
    is_heldout,
    is_sound,
    make_expression,
    solution,
    value,
)
from ictcli.tasks.chain.tokenizer import EOS_ID, PAD_ID, VOCABULARY, make_tokenizer
from ictcli.tasks.prompts import decode
from ictcli.types import Sampling

HELDOUT_PROBLEMS = 512
HELDOUT_SEED = 1
SAMPLES = 8
ROPE_THETA = 1000.0
"""Small since responses are short: fewer of the rotary frequencies are too slow to be of use."""

_IDS = bytes.maketrans("".join(VOCABULARY[2:]).encode(), bytes(range(2, len(VOCABULARY))))


@dataclass(frozen=True)
class Recipe:
    """How the base model is pre-trained.

    `right` is the probability of the right operator in the solutions it is taught, `operands`
    the inclusive range of their sizes, `rows` the number of problems in a batch, and
    `learning_rate` the peak of a linear warm-up and a cosine decay to zero.
    """

    steps: int = 4_500
    seed: int = 0
    right: float = 0.4
    operands: tuple[int, int] = CHAIN
    rows: int = 48
    learning_rate: float = 3e-3
    warmup: int = 100
    weight_decay: float = 0.01


def make_model() -> Qwen2ForCausalLM:
    """A Qwen2 of 0.34 M random float32 weights, drawn from torch's generator.

    Deep rather than wide: a line is copied from the one before by several heads in turn.
    """
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
        dtype="float32",
    )
    return Qwen2ForCausalLM(config)


def batches(recipe: Recipe) -> Iterator[tuple[int, Tensor]]:
    """Endless batches (prompt length, token ids [rows, length]) of problems not held out.

    All problems of a batch have the same number of operands n, so that prompts (2n tokens)
    and responses (n(n-1) tokens) need no padding; n goes round its range in random order.
    """
    rng = random.Random(recipe.seed)
    sizes = list(range(recipe.operands[0], recipe.operands[1] + 1))
    while True:
        rng.shuffle(sizes)
        for size in sizes:
            texts: list[str] = []
            while len(texts) < recipe.rows:
                expression = make_expression(rng, (size, size))
                if not is_heldout(expression):
                    texts.append(f"{expression}={solution(expression, rng, recipe.right)}")
            ids = bytearray("".join(texts).encode().translate(_IDS))
            yield 2 * size, torch.frombuffer(ids, dtype=torch.uint8).view(recipe.rows, -1).long()


def response_loss(model: Qwen2ForCausalLM, ids_RL: Tensor, prompt: int) -> Tensor:
    """Mean cross-entropy (nats) of the response tokens, those from position `prompt` on."""
    logits_RTV = model(input_ids=ids_RL[:, :-1], use_cache=False).logits[:, prompt - 1 :]
    return functional.cross_entropy(logits_RTV.flatten(0, 1), ids_RL[:, prompt:].flatten())


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then cosine decay to zero at the last step."""
    warm = min(1.0, (step + 1) / recipe.warmup)
    return recipe.learning_rate * warm * 0.5 * (1.0 + math.cos(math.pi * step / recipe.steps))


@dataclass(frozen=True)
class Measurement:
    """What sampling at temperature 1 showed; every share is of all sampled responses."""

    problems: int
    samples: int
    pass_at_1: float
    pass_at_4: float
    slips: float
    """Share of responses with an error of arithmetic or copying, or no proper end."""
    response_tokens: float
    """Mean length of a response, `#` included."""
    fork_share: float
    """Share of all response tokens that are forks."""


def heldout_expressions(count: int, operands: tuple[int, int], seed: int) -> list[str]:
    """The first `count` held-out expressions that a generator with this seed draws."""
    rng = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        expression = make_expression(rng, operands)
        if is_heldout(expression):
            found.append(expression)
    return found


def measure(folder: Path, problems: int, samples: int, operands: tuple[int, int]) -> Measurement:
    """Sample at temperature 1 with the torch engine, and verify; `samples` must be 4 or more."""
    settings = EngineSettings(backend="torch", device="cpu", threads=1)
    engine = build_engine(str(folder), settings, OptimizerSettings())
    expressions = heldout_expressions(problems, operands, HELDOUT_SEED)
    prompts = [engine.tokenizer(f"{expression}=")["input_ids"] for expression in expressions]
    longest = operands[1] * (operands[1] - 1) + 4  # a few tokens more than a sound one
    sampling = Sampling(longest, stop_ids=engine.stop_ids)
    texts = decode(engine.tokenizer, engine.generate(prompts, samples, sampling, seed=0))
    pairs = [(f"{expressions[row // samples]}=", text) for row, text in enumerate(texts)]
    right = [chain(text, str(value(prompt[:-1]))).status == "correct" for prompt, text in pairs]
    correct = np.array(right).reshape(problems, samples).sum(axis=1)
    tokens = sum(len(text) for text in texts)
    return Measurement(
        problems=problems,
        samples=samples,
        pass_at_1=float(pass_at_k(samples, correct, 1).mean()),
        pass_at_4=float(pass_at_k(samples, correct, 4).mean()),
        slips=sum(not is_sound(*pair) for pair in pairs) / len(pairs),
        response_tokens=tokens / len(pairs),
        fork_share=sum(len(forks(*pair)) for pair in pairs) / tokens,
    )


def pretrain(recipe: Recipe, every: int = 1000) -> Qwen2ForCausalLM:
    """Train from random weights; print the mean loss of every `every` steps."""
    torch.manual_seed(recipe.seed)
    model = make_model()
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=(0.9, 0.98), weight_decay=recipe.weight_decay, fused=True
    )
    losses: list[float] = []
    start = time.monotonic()
    for step, (prompt, ids_RL) in zip(range(recipe.steps), batches(recipe), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss = response_loss(model, ids_RL, prompt)
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


def save(model: Qwen2ForCausalLM, folder: Path) -> None:
    """Write model and tokenizer into `folder` in Hugging Face layout, weights in float32.

    `rope_theta` is repeated at the top level of config.json, where mlx-lm looks for it.
    """
    model.generation_config = GenerationConfig(eos_token_id=EOS_ID, pad_token_id=PAD_ID)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text()) | {"rope_theta": ROPE_THETA}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for path in folder.iterdir():
        path.chmod(0o644)


def report(model: Qwen2ForCausalLM, recipe: Recipe, folder: Path, seconds: float) -> dict[str, Any]:
    """What build.json says: the recipe, the versions, the weights and the measurements."""
    measured = {
        name: asdict(measure(folder, HELDOUT_PROBLEMS, SAMPLES, operands))
        for name, operands in (("chain", CHAIN), ("chain_long", CHAIN_LONG))
    }
    weights = (folder / "model.safetensors").read_bytes()
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "recipe": asdict(recipe),
        "pretraining_seconds": round(seconds),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "heldout_at_temperature_1": {
            name: {key: round(value, 4) for key, value in figures.items()}
            for name, figures in measured.items()
        },
        "sha256": hashlib.sha256(weights).hexdigest(),
    }


def build(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Pre-train, measure and save: written beside `out`, which is replaced at the end."""
    start = time.monotonic()
    model = pretrain(recipe)
    seconds = time.monotonic() - start
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save(model, partial)
    stated = report(model, recipe, partial, seconds)
    (partial / "build.json").write_text(json.dumps(stated, indent=2) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    return stated


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python bench/chain_model.py",
        description="Pre-train the base model of the task chain.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=BUILTIN["chain"], help="folder to replace")
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("--seed", type=int, help="of weights and data")
    parser.add_argument("--right", type=float, help="probability of the right operator")
    parser.add_argument("--operands", type=int, nargs=2, help="sizes from and to")
    parser.add_argument("--rows", type=int, help="problems in a batch")
    parser.add_argument("--learning-rate", type=float, help="peak learning rate")
    parser.set_defaults(**asdict(Recipe()))
    arguments = vars(parser.parse_args())
    torch.set_num_threads(1)
    out = arguments.pop("out")
    print(json.dumps(build(Recipe(**arguments), out), indent=2))


if __name__ == "__main__":
    main()
