"""Pre-train the base model of the task `chain` and save it in Hugging Face layout.

    python -m ictcli.tasks.chain.build --out DIR

The model is a tiny Qwen2 that has seen sound solutions whose choices of operator are right
only some of the time. It computes and copies almost without error and chooses badly: what
is left to learn by reinforcement is at the fork tokens. One thread, so that a seed gives
the same model on the same machine and library versions.
"""

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

import torch
import transformers
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from ictcli.tasks.chain.measure import Measurement, heldout_expressions, measure
from ictcli.tasks.chain.problem import CHAIN, is_heldout, make_expression, solution
from ictcli.tasks.chain.tokenizer import EOS_ID, PAD_ID, VOCABULARY, make_tokenizer

ROPE_THETA = 10000.0
_IDS = bytes.maketrans(
    "".join(VOCABULARY[2:]).encode(), bytes(range(2, len(VOCABULARY)))
)


@dataclass(frozen=True)
class Recipe:
    """How the base model is pre-trained; `right` is the share of right operators taught."""

    steps: int
    seed: int
    right: float
    rows: int
    learning_rate: float
    weight_decay: float = 0.01
    warmup: int = 200


def make_model(hidden: int = 96, layers: int = 3, heads: int = 4, inter: int = 256) -> Qwen2ForCausalLM:
    """A Qwen2 with random weights from torch's generator, tied embeddings, float32."""
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=hidden,
        intermediate_size=inter,
        num_hidden_layers=layers,
        num_attention_heads=heads,
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
    sizes = list(range(CHAIN[0], CHAIN[1] + 1))
    while True:
        rng.shuffle(sizes)
        for size in sizes:
            texts: list[str] = []
            while len(texts) < recipe.rows:
                expression = make_expression(rng, (size, size))
                if not is_heldout(expression):
                    response = solution(expression, rng, recipe.right)
                    texts.append(f"{expression}={response}")
            ids = bytearray("".join(texts).encode().translate(_IDS))
            yield 2 * size, torch.frombuffer(ids, dtype=torch.uint8).view(recipe.rows, -1).long()
