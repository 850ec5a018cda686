"""How far a correct response, read before the prompt, moves each token's distribution.

SC-GRPO (arXiv 2606.18810, Sec. 5.1) conditions the model on another correct response of the group,
drawn uniformly, and compares its two distributions at each token. Ours: the model reads the prompt,
that response and the prompt again, where the paper has a system prompt, since base models have
none; the teacher has the weights that sampled.

It takes two passes over the responses that are read so, and their logits in memory part by part.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ictcli.algorithm.quantities import kl
from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.train.distributions import distributions, divergences, pieces, room_of
from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts


def require_room(engine: Engine, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
    """UserError unless a prompt, a response, the prompt again and a response fit the context."""
    needed = 2 * (max(map(len, prompts)) + max_tokens)
    if needed > engine.context:
        raise UserError(
            f"The method reads a correct response before the prompt: up to {needed} tokens, and "
            f"the model's context is {engine.context}.",
            f"max_tokens={max(max_tokens - -(-(needed - engine.context) // 2), 1)}",
        )


def other_correct(correct: BoolArray, group: int, rng: np.random.Generator) -> IntArray:
    """(B,) a row drawn from the other correct responses of each row's group; -1 in groups that have
    fewer than two, or none that is wrong."""
    found = np.full(len(correct), -1)
    for first in range(0, len(correct), group):
        right = first + np.flatnonzero(correct[first : first + group])
        if 2 <= len(right) < group:
            for row in range(first, first + group):
                found[row] = rng.choice(right[right != row])
    return found


def solution_kl(engine: Engine, rollouts: Rollouts, solution: IntArray) -> FloatArray:
    """(B, T) float32 KL(p behind the row `solution` (B,) || p), in nats; 0 where that is -1, and
    behind ends."""
    found = np.zeros(rollouts.tokens.shape, dtype=np.float32)
    rows = np.flatnonzero(solution >= 0)
    if not len(rows):
        return found
    alone = [rollouts.prompt_of(int(row)) for row in rows]
    behind = [
        (*prompt, *rollouts.tokens[row, : rollouts.lengths[row]].tolist(), *prompt)
        for prompt, row in zip(alone, solution[rows], strict=True)
    ]
    student, teacher = (_rows(rollouts, rows, prompts) for prompts in (alone, behind))
    values = np.zeros((len(rows), rollouts.tokens.shape[1]), dtype=np.float32)
    for some in pieces(rollouts.valid[rows], room_of(engine)):
        p, q = (distributions(engine, read, some) for read in (teacher, student))
        values[some] = divergences(kl, p, q, np.arange(len(p)))
    found[rows] = values
    return found


def _rows(rollouts: Rollouts, rows: IntArray, prompts: Sequence[tuple[int, ...]]) -> Rollouts:
    """These rows, each with a prompt of its own."""
    return replace(
        rollouts,
        prompts=tuple(prompts),
        group=1,
        tokens=rollouts.tokens[rows],
        lengths=rollouts.lengths[rows],
        finished=rollouts.finished[rows],
        logp=rollouts.logp[rows],
        stats={},
        sampler_logp=None,
    )
