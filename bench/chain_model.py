"""Pre-train the base model of the task `chain`, measure it and save it in Hugging Face layout.

    python bench/chain_model.py --out DIR

The model is a tiny Qwen2 that has seen sound solutions whose choices of operator are wrong more
often than right. It computes and copies almost without error and chooses badly, decoded greedily
too: what is left to learn by reinforcement is at the tokens where responses part. One thread, so
that a seed gives the same model on the same machine and library versions.
"""

# pyright: reportUnknownMemberType=false
# torch and transformers annotate only a part of their parameters.

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from chain_texts import EOS_ID, PAD_ID, VOCABULARY, is_sound, make_tokenizer, solution
from pretraining import Built, Measurement, Recipe, build, measured, parser_of, rounded
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM

from ictcli.engine import Engine
from ictcli.engine.models import BUILTIN
from ictcli.tasks.chain.problem import (
    CHAIN,
    CHAIN_LONG,
    DOMAIN,
    heldout,
    make_expression,
)
from ictcli.tasks.task import is_set_aside

PROBLEMS = 512
ROPE_THETA = 1000.0
"""Small since responses are short: fewer of the rotary frequencies are too slow to be of use."""

_IDS = bytes.maketrans("".join(VOCABULARY[2:]).encode(), bytes(range(2, len(VOCABULARY))))


@dataclass(frozen=True)
class ChainRecipe(Recipe):
    """`operands` is the inclusive range of the sizes of the solutions that the model is taught."""

    steps: int = 4_500
    seed: int = 0
    right: float = 0.39
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


def batches(recipe: ChainRecipe) -> Iterator[tuple[int, Tensor]]:
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
                if not is_set_aside(expression):
                    texts.append(f"{expression}={solution(expression, rng, recipe.right)}")
            ids = bytearray("".join(texts).encode().translate(_IDS))
            yield 2 * size, torch.frombuffer(ids, dtype=torch.uint8).view(recipe.rows, -1).long()


def response_loss(model: Any, batch: tuple[int, Tensor]) -> Tensor:
    """Mean cross-entropy (nats) of the response tokens, those after the prompt."""
    prompt, ids_RL = batch
    logits_RTV = model(input_ids=ids_RL[:, :-1], use_cache=False).logits[:, prompt - 1 :]
    return functional.cross_entropy(logits_RTV.flatten(0, 1), ids_RL[:, prompt:].flatten())


@dataclass(frozen=True)
class ChainMeasurement(Measurement):
    """And what was sampled."""

    slips: float
    """Share of responses with an error of arithmetic or copying, or no proper end."""
    response_tokens: float
    """Mean length of a response, `#` included."""


def measure(engine: Engine, operands: tuple[int, int]) -> ChainMeasurement:
    asked = heldout(operands, PROBLEMS)
    longest = operands[1] * (operands[1] - 1) + 4  # a few tokens more than a sound one
    figures, pairs, _ = measured(engine, asked, DOMAIN, longest)
    tokens = sum(len(text) for _, text in pairs)
    return ChainMeasurement(
        **asdict(figures),
        slips=sum(not is_sound(*pair) for pair in pairs) / len(pairs),
        response_tokens=tokens / len(pairs),
    )


def measure_all(engine: Engine) -> dict[str, Any]:
    sizes = {"chain": CHAIN, "chain-long": CHAIN_LONG}
    return {name: rounded(measure(engine, operands)) for name, operands in sizes.items()}


def main() -> None:
    parser = parser_of(
        "python bench/chain_model.py",
        "Pre-train the base model of the task chain.",
        BUILTIN["chain"],
    )
    parser.add_argument("--operands", type=int, nargs=2, help="sizes from and to")
    parser.set_defaults(**asdict(ChainRecipe()))
    arguments = vars(parser.parse_args())
    torch.set_num_threads(1)
    out = arguments.pop("out")
    recipe = ChainRecipe(**arguments)

    model = Built(make_model, batches(recipe), response_loss, make_tokenizer(), ROPE_THETA)
    print(json.dumps(build(model, recipe, out, measure_all), indent=2))


if __name__ == "__main__":
    main()
