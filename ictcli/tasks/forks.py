"""The true forks of rollouts, token by token, and what the choices made there came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ictcli.tasks.chain import problem as chain
from ictcli.tasks.detokenize import Decode
from ictcli.tasks.ledger import problem as ledger
from ictcli.tasks.task import Domain, Task
from ictcli.types import BoolArray, Problem, Rollouts


@dataclass(frozen=True)
class Decided:
    """(B, T) each."""

    forks: BoolArray
    """Tokens that hold a true fork."""
    right: BoolArray
    """Forks where the right choice was taken."""
    lost: BoolArray
    """Tokens after the one that put the right answer out of reach."""

    @property
    def masks(self) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Right forks, wrong forks, and what is after a lost answer."""
        return self.forks & self.right, self.forks & ~self.right, self.lost


def fork_mask(
    task: Task, problems: Sequence[Problem], rollouts: Rollouts, tokenizer: Any
) -> BoolArray | None:
    """(B, T): the tokens that hold a true fork, where the task knows its forks."""
    choices = decided(task.domain, problems, rollouts, plain(tokenizer))
    return choices and choices.forks


def decided(
    domain: Domain, problems: Sequence[Problem], rollouts: Rollouts, decode: Decode
) -> Decided | None:
    """What the choices of each response came to; None where the task does not know. `decode` leaves
    special tokens out."""
    if domain.decisions is None:
        return None
    shape = rollouts.tokens.shape
    choices = Decided(*(np.zeros(shape, dtype=bool) for _ in range(3)))
    ids = np.unique(rollouts.tokens[rollouts.valid])
    pieces = {int(i): decode([int(i)]) for i in ids}
    for row in range(len(rollouts)):
        tokens = [pieces[int(i)] for i in rollouts.tokens[row, : rollouts.lengths[row]]]
        ends = np.cumsum([len(piece) for piece in tokens])
        prompt = problems[row // rollouts.group].prompt
        decisions = domain.decisions(prompt, "".join(tokens))
        at = np.searchsorted(ends, decisions.forks, side="right")
        choices.forks[row, at] = True
        choices.right[row, at] = decisions.right
        if decisions.lost is not None:
            first = int(np.searchsorted(ends, decisions.lost, side="right"))
            choices.lost[row, first + 1 : len(ends)] = True
    return choices


def plain(tokenizer: Any) -> Decode:
    """Text without special tokens."""
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True)


def built_in(task: str) -> Domain | None:
    """The domain of a built-in task, which needs no data; None for other tasks."""
    return {"chain": chain.DOMAIN, **dict.fromkeys(ledger.SETTINGS, ledger.DOMAIN)}.get(task)
