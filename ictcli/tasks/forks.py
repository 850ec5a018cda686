"""The true forks of rollouts, token by token."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ictcli.tasks.detokenize import Decode
from ictcli.tasks.task import Task
from ictcli.types import BoolArray, IntArray, Problem, Rollouts


def fork_mask(
    task: Task, problems: Sequence[Problem], rollouts: Rollouts, tokenizer: Any
) -> BoolArray | None:
    """(B, T): the tokens that hold a true fork, where the task knows its forks."""
    if task.domain.forks is None:
        return None
    mask = np.zeros(rollouts.tokens.shape, dtype=bool)
    for row, (prompt, text, ends) in enumerate(_texts(problems, rollouts, plain(tokenizer))):
        mask[row, _tokens_at(task.domain.forks(prompt, text), ends)] = True
    return mask


def plain(tokenizer: Any) -> Decode:
    """Text without special tokens."""
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True)


def _texts(
    problems: Sequence[Problem], rollouts: Rollouts, decode: Decode
) -> Iterator[tuple[str, str, IntArray]]:
    """Of each row the prompt, the text of its tokens, and where each ends, in characters."""
    ids = np.unique(rollouts.tokens[rollouts.valid])
    pieces = {int(i): decode([int(i)]) for i in ids}
    for row in range(len(rollouts)):
        tokens = [pieces[int(i)] for i in rollouts.tokens[row, : rollouts.lengths[row]]]
        ends = np.cumsum([len(piece) for piece in tokens])
        yield problems[row // rollouts.group].prompt, "".join(tokens), ends


def _tokens_at(places: Sequence[int], ends: IntArray) -> IntArray:
    return np.searchsorted(ends, places, side="right")
