"""The correct responses that `solution_kl` has the model read.

SC-GRPO (arXiv 2606.18810, Sec. 5.1) conditions the model on another correct response of the group,
drawn uniformly, and compares its two distributions at each token. Ours: the model reads the prompt,
that response and the prompt again, where the paper has a system prompt, since base models have
none; the teacher has the weights that sampled.
"""

from collections.abc import Sequence

import numpy as np

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.types import BoolArray, IntArray


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
