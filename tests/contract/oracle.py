"""What an engine must give, computed the plain way: one row at a time, no cache, no padding.

transformers runs the model in float64; the formulas below are NumPy in float64.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from ictcli.types import Rollouts


@cache
def plain_model(folder: Path) -> Any:
    """That of transformers, in float64. Shared: who trains it copies it."""
    how: Any = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, **how).eval()


class Oracle:
    """Full logits of prompt + response, by a plain forward pass of the model in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.model = plain_model(folder)
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def sequence_logits(self, ids: Sequence[int]) -> np.ndarray:
        """(len(ids), V): row s predicts the token at s + 1."""
        key = tuple(int(i) for i in ids)
        if key not in self._known:
            with torch.no_grad():
                output = self.model(input_ids=torch.tensor([key]), use_cache=False)
            self._known[key] = output.logits[0].double().numpy()
        return self._known[key]

    def row_logits(self, rollouts: Rollouts, row: int) -> np.ndarray:
        """(length, V): the logits each token of a response was drawn from."""
        prompt, length = rollouts.prompt_of(row), int(rollouts.lengths[row])
        ids = (*prompt, *rollouts.tokens[row, :length].tolist())
        return self.sequence_logits(ids)[len(prompt) - 1 : -1]

    def logits(self, rollouts: Rollouts, where: np.ndarray) -> np.ndarray:
        """(N, V) at the True places of `where`, in row-major order."""
        rows, places = np.nonzero(where)
        found = [self.row_logits(rollouts, int(r))[t] for r, t in zip(rows, places, strict=True)]
        return np.array(found).reshape(len(rows), -1)

    def logp(self, rollouts: Rollouts, temperature: float) -> np.ndarray:
        """(B, T) log-probabilities of the sampled tokens, 0 after ends."""
        found = np.zeros(rollouts.tokens.shape)
        for row, length in enumerate(rollouts.lengths):
            logp = log_softmax(self.row_logits(rollouts, row) / temperature)
            tokens = rollouts.tokens[row, :length]
            found[row, :length] = logp[np.arange(length), tokens]
        return found

    def stats(self, rollouts: Rollouts) -> dict[str, np.ndarray]:
        """Every statistic of `TokenStats` by its definition; ended rows drop out of the mean."""
        B, T = rollouts.tokens.shape
        p = [np.exp(log_softmax(self.row_logits(rollouts, row))) for row in range(B)]
        names = (*ROW_FORMULAS, "prob", "min_p", *GROUP_FORMULAS)
        names += ("uniqueness_response", "uniqueness_group")
        found = {name: np.zeros((B, T)) for name in names}
        for row in range(B):
            first = row // rollouts.group * rollouts.group
            group = range(first, first + rollouts.group)
            for t in range(int(rollouts.lengths[row])):
                mine = p[row][t]
                mean = np.mean([p[other][t] for other in group if len(p[other]) > t], axis=0)
                found["prob"][row, t] = mine[rollouts.tokens[row, t]]
                likely = np.where(mine >= 0.02 * mine.max(), mine, 0)
                found["min_p"][row, t] = likely[rollouts.tokens[row, t]] / likely.sum()
                for name, formula in ROW_FORMULAS.items():
                    found[name][row, t] = formula(mine)
                for name, formula in GROUP_FORMULAS.items():
                    found[name][row, t] = formula(mine, mean)
                found["uniqueness_response"][row, t] = js(mine, np.mean(p[row], axis=0))
                everywhere = np.mean(np.concatenate([p[other] for other in group]), axis=0)
                found["uniqueness_group"][row, t] = js(mine, everywhere)
        return found


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.sum(p * (np.log(p) - np.log(q))))


def js(p: np.ndarray, q: np.ndarray) -> float:
    m = (p + q) / 2
    return kl(p, m) / 2 + kl(q, m) / 2


ROW_FORMULAS = {
    "entropy": lambda p: float(-np.sum(p * np.log(p))),
    "purity": lambda p: float(np.sum(p**2)),
}
GROUP_FORMULAS = {
    "uniqueness": js,
    "kl_from_mean": kl,
    "kl_to_mean": lambda p, q: kl(q, p),
    "wasserstein": lambda p, q: float(np.abs(np.cumsum(p) - np.cumsum(q)).sum()),
}


def agreeing(rollouts: Rollouts) -> np.ndarray:
    """(B, T): places where every row of the group that is still running has the same prefix."""
    same = np.zeros(rollouts.tokens.shape, dtype=bool)
    for row in range(len(rollouts)):
        first = row // rollouts.group * rollouts.group
        group = range(first, first + rollouts.group)
        for t in range(int(rollouts.lengths[row])):
            alive = [r for r in group if rollouts.lengths[r] > t]
            same[row, t] = len({tuple(rollouts.tokens[r, :t]) for r in alive}) == 1
    return same


def nucleus(p: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """(V,) mask: the `top_k` likeliest tokens, or the smallest set whose mass reaches `top_p`."""
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    mask = np.zeros(len(p), dtype=bool)
    mask[order[: top_k or len(p)]] = True
    mask[order[before >= top_p]] = False
    return mask
