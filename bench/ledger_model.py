"""Pre-train the base model of the task `ledger`, measure it and save it in Hugging Face layout.

    python bench/ledger_model.py --out DIR

The model is a tiny Llama that has seen sound solutions of every setting, whose days are right only
some of the time: it copies and counts almost without error, and where an entry has four days or
more it takes the day that it starts from for the first, more often than not. What is left to learn
by reinforcement is at the tokens where responses part, and decoding it greedily does not help.
"""

# pyright: reportUnknownMemberType=false
# torch and transformers annotate only a part of their parameters.

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from typing import Any

import torch
from ledger_texts import (
    END_ID,
    PAD_ID,
    PIECE,
    STYLES,
    VOCABULARY,
    is_sound,
    make_tokenizer,
    solution,
)
from pretraining import STATS, Built, Measurement, Recipe, build, measured, parser_of, rounded
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from ictcli.algorithm.branches import prefix_tree
from ictcli.algorithm.selection import top_share
from ictcli.engine import Engine
from ictcli.engine.models import BUILTIN
from ictcli.tasks.ledger.problem import (
    DAYS,
    DOMAIN,
    NUMBERS,
    SETTINGS,
    TRADES,
    heldout,
    ledgers,
)

PROBLEMS = 256
SHARES = {"ledger": 0.4, "ledger-easy": 0.2, "ledger-echo": 0.2, "ledger-drift": 0.2}
"""Of the batches, by setting."""
CONTENT = 5.0
"""Weight in the loss of days, numbers and goods: the other words are many and soon known."""
ROPE_THETA = 1000.0
"""Small since responses are short: fewer of the rotary frequencies are too slow to be of use."""

_IDS = {token: i for i, token in enumerate(VOCABULARY)}
_CONTENT = torch.tensor(
    [_IDS[f" {word}"] for words in (DAYS, NUMBERS, *TRADES.values()) for word in words]
)


@dataclass(frozen=True)
class LedgerRecipe(Recipe):
    """`right_long` is the probability of the right choice where an entry has `LONG` or more days.
    The first `lesson` steps show short solutions that are all right: where some are wrong from the
    start, the model does not learn to count. `hidden` and `layers`: its width and depth."""

    steps: int = 1_050
    lesson: int = 350
    seed: int = 0
    right: float = 0.95
    right_long: float = 0.42
    rows: int = 32
    learning_rate: float = 3e-3
    warmup: int = 50
    weight_decay: float = 0.01
    hidden: int = 96
    layers: int = 4


def make_model(recipe: LedgerRecipe) -> LlamaForCausalLM:
    """A Llama of random float32 weights, drawn from torch's generator.

    They are larger than transformers draws them: heads that copy form in a fifth of the steps.
    """
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=recipe.hidden,
        intermediate_size=2 * recipe.hidden,
        num_hidden_layers=recipe.layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
        dtype="float32",
    )
    return LlamaForCausalLM(config)


def encode(text: str) -> list[int]:
    return [_IDS[piece] for piece in PIECE.findall(text)]


def batches(recipe: LedgerRecipe) -> Iterator[tuple[int, Tensor]]:
    """Endless batches (prompt length, token ids [rows, length], padded after their ends) of
    problems not held out. All of a batch are of one setting and number of entries, so that their
    prompts are equally long."""
    rng = random.Random(recipe.seed)
    for step in count():
        (name,) = rng.choices(list(SHARES), list(SHARES.values()))
        if lesson := step < recipe.lesson:
            name = "ledger"
        size = rng.randint(*SETTINGS[name].entries)
        setting = replace(SETTINGS[name], entries=(size, size))
        rows: list[Tensor] = []
        prompt = ""
        for prompt, ledger in islice(ledgers(rng, setting, heldout=False), recipe.rows):
            right = (1.0, 1.0) if lesson else (recipe.right, recipe.right_long)
            ids = encode(prompt + solution(ledger, STYLES[name], rng, *right))
            rows.append(torch.tensor([*ids, END_ID]))
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
        yield len(encode(prompt)), padded


def response_loss(model: Any, batch: tuple[int, Tensor]) -> Tensor:
    """Weighted mean cross-entropy (nats) of the response tokens, those after the prompt."""
    prompt, ids_RL = batch
    logits_RTV = model(input_ids=ids_RL[:, :-1], use_cache=False).logits[:, prompt - 1 :]
    target_RT = ids_RL[:, prompt:]
    weight_RT = torch.where(torch.isin(target_RT, _CONTENT), CONTENT, 1.0) * (target_RT != PAD_ID)
    loss_RT = functional.cross_entropy(
        logits_RTV.flatten(0, 1), target_RT.flatten(), reduction="none"
    ).view_as(target_RT)
    return (loss_RT * weight_RT).sum() / weight_RT.sum()


@dataclass(frozen=True)
class LedgerMeasurement(Measurement):
    """And what was sampled. Entropy H1 and uniqueness u are means in nats."""

    slips: float
    """Share of responses with an error of counting or copying, or no proper end."""
    response_tokens: float
    """Mean length of a response, its end token included."""
    branch_share: float
    """Share of all response tokens that are branches."""
    branch_entropy: float
    other_entropy: float
    """Of all other tokens."""
    branch_uniqueness: float
    other_uniqueness: float
    recall_ict: float
    """Share of branches among the 10 % of each response with the highest u; by chance 0.1."""
    recall_entropy20: float
    """Share of branches among the 20 % of all tokens with the highest H1; by chance 0.2."""


def measure(engine: Engine, name: str, problems: int) -> LedgerMeasurement:
    asked = heldout(name, problems)
    figures, pairs, rollouts = measured(engine, asked, DOMAIN, 300)
    mask = prefix_tree(rollouts).branch
    entropy, uniqueness = (rollouts.stats[name] for name in STATS)
    others = rollouts.valid & ~mask
    ict = top_share(uniqueness, rollouts.valid, 0.1)
    entropy20 = top_share(entropy, rollouts.valid, 0.2, scope="batch", zeros=True)
    return LedgerMeasurement(
        **asdict(figures),
        slips=sum(not is_sound(*pair) for pair in pairs) / len(pairs),
        response_tokens=float(rollouts.lengths.mean()),
        branch_share=float(mask.sum() / rollouts.lengths.sum()),
        branch_entropy=float(entropy[mask].mean()),
        other_entropy=float(entropy[others].mean()),
        branch_uniqueness=float(uniqueness[mask].mean()),
        other_uniqueness=float(uniqueness[others].mean()),
        recall_ict=float(ict[mask].mean()),
        recall_entropy20=float(entropy20[mask].mean()),
    )


def measure_all(engine: Engine) -> dict[str, Any]:
    return {name: rounded(measure(engine, name, PROBLEMS)) for name in SETTINGS}


def main() -> None:
    parser = parser_of(
        "python bench/ledger_model.py",
        "Pre-train the base model of the task ledger.",
        BUILTIN["ledger"],
    )
    parser.add_argument("--lesson", type=int, help="first steps, of right solutions alone")
    parser.add_argument("--right-long", type=float, help="the same, of an entry of many days")
    parser.add_argument("--hidden", type=int, help="width of the model")
    parser.add_argument("--layers", type=int, help="depth of the model")
    parser.set_defaults(**asdict(LedgerRecipe()))
    arguments = vars(parser.parse_args())
    torch.set_num_threads(1)
    out = arguments.pop("out")
    recipe = LedgerRecipe(**arguments)

    model = Built(
        lambda: make_model(recipe),
        batches(recipe),
        response_loss,
        make_tokenizer(),
        ROPE_THETA,
        torch.float16,
    )
    print(json.dumps(build(model, recipe, out, measure_all), indent=2))


if __name__ == "__main__":
    main()
