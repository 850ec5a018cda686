"""Measure a model on held-out `chain` problems: pass@k, slips, lengths and forks."""

# pyright: reportUnknownMemberType=false
# torch and transformers annotate only a part of their parameters.

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ictcli.evaluation.passk import pass_at_k
from ictcli.rewards.builtin import chain
from ictcli.tasks.chain.problem import (
    forks,
    is_heldout,
    is_sound,
    make_expression,
    value,
)


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


@torch.no_grad()
def sample_responses(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    expressions: list[str],
    samples: int,
    seed: int,
) -> list[list[str]]:
    """Sample responses at temperature 1, `samples` to each expression.

    Problems of one length share a batch, so that there is no padding. A response is cut a
    few tokens after the length that a sound one has.
    """
    torch.manual_seed(seed)
    rows_of_length: defaultdict[int, list[int]] = defaultdict(list)
    for row, expression in enumerate(expressions):
        rows_of_length[len(expression)].append(row)
    responses: list[list[str]] = [[] for _ in expressions]
    for length, rows in sorted(rows_of_length.items()):
        prompts = tokenizer([expressions[row] + "=" for row in rows], return_tensors="pt")
        operands = (length + 1) // 2
        output = model.generate(
            input_ids=prompts["input_ids"],
            attention_mask=prompts["attention_mask"],
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            num_return_sequences=samples,
            max_new_tokens=operands * (operands - 1) + 4,
        )
        texts = tokenizer.batch_decode(output[:, length + 1 :], skip_special_tokens=True)
        for i, row in enumerate(rows):
            responses[row] = texts[i * samples : (i + 1) * samples]
    return responses


def measure(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    expressions: list[str],
    samples: int,
    seed: int,
) -> Measurement:
    """Sample and verify; `samples` must be 4 or more."""
    responses = sample_responses(model, tokenizer, expressions, samples, seed)
    correct = np.array(
        [
            sum(chain(r, str(value(e))).status == "correct" for r in rs)
            for e, rs in zip(expressions, responses, strict=True)
        ]
    )
    pairs = [(e + "=", r) for e, rs in zip(expressions, responses, strict=True) for r in rs]
    tokens = sum(len(r) for _, r in pairs)
    return Measurement(
        problems=len(expressions),
        samples=samples,
        pass_at_1=float(pass_at_k(samples, correct, 1).mean()),
        pass_at_4=float(pass_at_k(samples, correct, 4).mean()),
        slips=sum(not is_sound(p, r) for p, r in pairs) / len(pairs),
        response_tokens=tokens / len(pairs),
        fork_share=sum(len(forks(p, r)) for p, r in pairs) / tokens,
    )
