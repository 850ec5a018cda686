"""Compute rewards: a weighted sum of correctness, format and length, or a control reward."""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.recipe.data import RewardSettings, Signal
from ictcli.rewards.verifiers import ABSTAINED, Verdict
from ictcli.types import FloatArray, IntArray


def formatted(verdict: Verdict) -> bool:
    """Return whether the response has an answer in the form its verifier expects, usually a box."""
    return verdict.status != "unparsed" or bool(verdict.extracted)


def overlong(lengths: IntArray, max_tokens: int, buffer: int) -> FloatArray:
    """Return (B,): 0 up to max_tokens - buffer tokens, then falling linearly to -1 at max_tokens
    (DAPO's soft overlong punishment, arXiv 2503.14476, Eq. 13)."""
    over = np.asarray(lengths, dtype=np.float64) - (max_tokens - buffer)
    return -np.clip(over / buffer, 0.0, 1.0)


def shaped(
    verdicts: Sequence[Verdict],
    lengths: IntArray,
    max_tokens: int,
    settings: RewardSettings,
    added: Mapping[str, Sequence[Verdict]] | None = None,
) -> FloatArray:
    """Return (B,) float64: the sum, weighted by `settings`, of the verdicts' rewards, the rewards
    that other verifiers `added` (by name), 1 for an answer, `overlong` and -lengths / max_tokens.
    `lengths` (B,) are in tokens."""
    rewards = settings.correct * np.array([verdict.reward for verdict in verdicts])
    for name, others in (added or {}).items():
        weight = settings.added[name][1]
        rewards = rewards + weight * np.array([verdict.reward for verdict in others])
    if settings.format:
        rewards = rewards + settings.format * np.array([formatted(verdict) for verdict in verdicts])
    if settings.overlong:
        buffer = settings.overlong_buffer or max(max_tokens // 5, 1)
        rewards = rewards + settings.overlong * overlong(lengths, max_tokens, buffer)
    if settings.length:
        rewards = rewards - settings.length * np.asarray(lengths) / max_tokens
    return rewards


def mean_reward(verdicts: Sequence[Verdict]) -> float | None:
    """Return the mean reward of the responses that got a reward; None if no response did."""
    rewards = [v.reward for v in verdicts if v.reason != ABSTAINED and not v.failed]
    return float(np.mean(rewards)) if rewards else None


def control_reward(
    signal: Signal, verdicts: Sequence[Verdict], rng: np.random.Generator
) -> FloatArray:
    """Return (B,) float64 control rewards, which ignore correctness: for `signal` "random" 0 or 1
    by a fair coin, else 1 for a response with an answer in the verifier's form and 0 otherwise.

    The coin is fair as in arXiv 2506.10947: that leaves the fewest groups with equal rewards."""
    if signal == "random":
        return rng.integers(0, 2, len(verdicts)).astype(np.float64)
    return np.array([formatted(verdict) for verdict in verdicts], dtype=np.float64)
