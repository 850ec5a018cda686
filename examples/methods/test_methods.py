"""Laws of this plugin's methods that weigh tokens, each against its equation in a plain loop."""

from dataclasses import replace
from math import ceil, exp, log
from typing import Any

import numpy as np
import pytest
from drawn import ceil_percent, choose, percents, scored
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.methods import Choice, Scored
from ictcli.algorithm.weights import group_advantage
from ictcli.types import FloatArray
from tests.cases import first


def tokens_of(batch: Scored) -> list[tuple[int, int]]:
    return [(int(i), int(t)) for i, t in np.argwhere(batch.valid)]


def weight_of(choice: Choice) -> FloatArray:
    assert choice.weight is not None
    return choice.weight


def judged(batch: Scored, *, scale: bool = True) -> Scored:
    """The batch with rewards of 0 and 1, and the advantages they give."""
    rewards = batch.correct.astype(np.float64)
    A = group_advantage(rewards, batch.group, scale=scale)
    return replace(batch, advantage=A)


def some(lengths: list[int], **given: Any) -> Scored:
    """One group of rows of these lengths."""
    B, T = len(lengths), max(lengths)
    valid = np.arange(T)[None, :] < np.array(lengths)[:, None]
    fields: dict[str, Any] = {
        "stats": {"entropy": valid.astype(float)},
        "logp": np.zeros((B, T)),
        "advantage": np.ones(B),
        "correct": np.ones(B, dtype=bool),
        "valid": valid,
        "tokens": np.ones((B, T), dtype=int),
        "texts": [""] * B,
        "group": B,
        "rng": np.random.default_rng(0),
    }
    return Scored(**{**fields, **given})


@pytest.mark.parametrize("share", first([0.5, 0.2, 1.0]))
def test_a_token_of_a_subset_weighs_one_on_average(share: float) -> None:
    batch, draws = some([1, 4, 9]), 1000
    weights = np.array(
        [weight_of(choose("nat", batch, n, draw="subset", share=share)) for n in range(draws)]
    )
    error = weights.std(axis=0) / np.sqrt(draws)
    assert (np.abs(weights.mean(axis=0) - 1) <= 5 * error + 1e-12)[batch.valid].all()


@given(scored(), percents)
def test_a_random_prefix_is_one_and_keeps_its_shortest(batch: Scored, percent: int) -> None:
    choice = choose("nat", batch, share=percent / 100)
    np.testing.assert_array_equal(choice.kept, batch.valid)
    for row, valid in zip(weight_of(choice), batch.valid, strict=True):
        length = int(valid.sum())
        shortest, drawn = ceil_percent(percent, length), row[:length] != 0
        assert shortest <= drawn.sum() <= length
        assert drawn[: int(drawn.sum())].all()
        cuts = length - shortest + 1
        for t in np.flatnonzero(drawn):
            survive = sum(cut > t for cut in range(shortest, length + 1))
            assert row[t] == pytest.approx(cuts / survive)


@given(scored(), st.floats(0, 2), st.floats(0.1, 9))
def test_rsi_keeps_what_is_as_surprising_as_its_bounds_say(
    batch: Scored, low: float, high: float
) -> None:
    kept = choose("rsi", batch, low=low, high=high).kept
    for i, t in tokens_of(batch):
        H1, prob = (float(batch.stats[name][i, t]) for name in ("entropy", "prob"))
        index = -log(prob) / (H1 + 1e-6)
        if min(abs(index - low), abs(index - high)) > 1e-4 * index:
            assert kept[i, t] == (low <= index <= high)


@given(scored(), st.floats(1e-3, 1), st.floats(0, 1))
def test_taco_takes_weight_off_reinforced_tokens_less_likely_than_their_entropy_says(
    batch: Scored, alpha: float, strength: float
) -> None:
    weight = weight_of(choose("taco", batch, alpha=alpha, strength=strength))
    for i, t in tokens_of(batch):
        H1, prob = (float(batch.stats[name][i, t]) for name in ("entropy", "prob"))
        risk = -log(prob) - H1 + log(alpha)
        if batch.advantage[i] > 0 and risk > 0:
            assert weight[i, t] == pytest.approx(1 - strength * (1 - exp(-risk)), rel=1e-5)
        else:
            assert weight[i, t] == 1


@given(scored(), st.integers(1, 60))
def test_pepo_weighs_correct_responses_by_entropy_among_their_neighbours(
    batch: Scored, window: int
) -> None:
    """Positions beyond an end are those as far on its other side, time and again."""
    weight = weight_of(choose("pepo", batch, window=window))
    for i, valid in enumerate(batch.valid):
        T = int(valid.sum())
        H1 = [float(value) for value in batch.stats["entropy"][i, :T]]

        def at(k: int, T: int = T, H1: list[float] = H1) -> float:
            period = max(2 * (T - 1), 1)
            k %= period
            return H1[min(k, period - k) if T > 1 else 0]

        near = [k for k in range(-window, window + 1) if abs(k) <= window / 2]
        e = [exp(H1[t]) / sum(exp(at(t + k)) for k in near) for t in range(T)]
        wanted = [value / sum(e) * T for value in e] if batch.correct[i] else [1.0] * T
        assert weight[i, :T] == pytest.approx(wanted)


@given(scored(), percents)
def test_quadrants_part_the_tokens_with_an_advantage(batch: Scored, percent: int) -> None:
    def kept(*bins: str) -> Any:
        return choose("quadrants", batch, share=percent / 100, bins=list(bins)).kept

    parts = [kept(name) for name in ("pos_high", "pos_low", "neg_high", "neg_low")]
    signal = batch.valid & (batch.advantage != 0)[:, None]
    np.testing.assert_array_equal(np.sum(parts, axis=0), signal)
    H1, high = batch.stats["entropy"], kept("pos_high", "neg_high")
    if (high & signal).any():
        assert H1[signal & ~high].max(initial=0) <= H1[high].min()
    assert high.sum() <= ceil(percent / 100 * batch.valid.sum() - 1e-9)


@given(scored())
def test_tempo_adds_what_the_group_s_prefix_tree_says(batch: Scored) -> None:
    """As its authors' code: branch_mean - ancestor_mean of the responses that share the prefix."""
    batch = judged(batch)
    weight, A = weight_of(choose("tempo", batch)), batch.advantage
    for i, t in tokens_of(batch):
        first = i // batch.group * batch.group
        group = range(first, first + batch.group)

        def value(n: int, group: range = group, i: int = i) -> float:
            same = [
                A[k]
                for k in group
                if batch.valid[k, :n].all() and (batch.tokens[k, :n] == batch.tokens[i, :n]).all()
            ]
            return sum(same) / len(same)

        # ended rows are in no prefix longer than theirs
        wanted = A[i] + value(t + 1) - value(t)
        assert weight[i, t] * A[i] == pytest.approx(wanted if A[i] else 0, abs=1e-9)


@given(scored(), st.floats(0, 1), st.floats(0.5, 4))
def test_eapo_adds_the_clipped_standardised_entropy(
    batch: Scored, alpha: float, phi: float
) -> None:
    """The two equations as published: A_H = clip((H - mu) / sigma), A + alpha sign(A) A_H."""
    weight = weight_of(choose("eapo", batch, alpha=alpha, phi=phi))
    H = [float(batch.stats["entropy"][place]) for place in tokens_of(batch)]
    mu, sigma = float(np.mean(H)), float(np.std(H))
    for place, entropy in zip(tokens_of(batch), H, strict=True):
        A = float(batch.advantage[place[0]])
        bound = abs(A) / phi
        A_H = min(max((entropy - mu) / (sigma + 1e-6), -bound), bound)
        wanted = A + alpha * np.sign(A) * A_H
        assert weight[place] * A == pytest.approx(wanted, abs=1e-9)


def test_gtpo_shares_rewards_out_by_entropy_and_by_its_inverse() -> None:
    """Shaped rewards 1.15 and 1.05 of Eq. 3, -1.04 and -1.16 of Eq. 5, normalised by Eq. 6; where
    the last response has ended, the other wrong one has all."""
    H1 = np.array([[3.0, 1.0], [1.0, 3.0], [4.0, 1.0], [1.0, 0.0]])
    correct = np.array([True, True, False, False])
    A = np.where(correct, 1.0, -1.0)
    batch = some([2, 2, 2, 1], stats={"entropy": H1}, correct=correct, advantage=A)
    shaped = np.array([[1.15, 1.05], [1.05, 1.15], [-1.04, -1.1], [-1.16, 0]])
    for over in ("sign", "group"):
        weight = weight_of(choose("gtpo", batch, over=over)) * A[:, None]
        for side in (batch.valid & correct[:, None], batch.valid & ~correct[:, None]):
            reward = np.where(side, shaped, 0)
            of = reward[side if over == "sign" else batch.valid]
            wanted = (shaped[side] - of.mean()) / of.std()
            np.testing.assert_allclose(weight[side], wanted, rtol=1e-9, atol=1e-9)


@given(st.integers(3, 9), st.floats(0.01, 3), st.integers(0, 99))
def test_gtpo_finds_nothing_among_equal_entropies(right: int, H: float, seed: int) -> None:
    """Rewards of a sign that differ by rounding alone carry no advantage."""
    noise = np.random.default_rng(seed).normal(0, 1e-8, (right + 1, 4))
    correct = np.arange(right + 1) < right
    A = np.where(correct, 1.0, -1.0)
    stats = {"entropy": H * (1 + noise)}
    batch = some([4] * (right + 1), stats=stats, correct=correct, advantage=A)
    assert not weight_of(choose("gtpo", batch, over="sign")).any()
