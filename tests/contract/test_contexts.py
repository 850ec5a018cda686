"""Uniqueness against like contexts, by definition: every token of the group with the same k before
it, whatever rollout and position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.engine import Engine, score
from ictcli.engine.score import context_means, like_contexts
from ictcli.types import Rollouts, Sampling

from .conftest import PROMPTS
from .oracle import Oracle, js, log_softmax

seeds = st.integers(0, 10**6)


def before(row: np.ndarray, t: int, k: int) -> tuple[int, ...]:
    """The k tokens before position t, fewer near the beginning, which only beginnings have."""
    return (t if t < k else -1, *row[max(t - k, 0) : t].tolist())


def defined(rollouts: Rollouts, p: np.ndarray, k: int) -> np.ndarray:
    """u of each token from distributions p (B, T, V), one pair at a time."""
    u, G = np.zeros(rollouts.tokens.shape), rollouts.group
    for row, t in np.argwhere(rollouts.valid):
        mine = before(rollouts.tokens[row], t, k)
        like = [
            (other, s)
            for other in range(row // G * G, row // G * G + G)
            for s in range(rollouts.lengths[other])
            if before(rollouts.tokens[other], s, k) == mine
        ]
        prefixes = {tuple(rollouts.tokens[other, :s]) for other, s in like}
        if len(prefixes) > 1:
            u[row, t] = js(p[row, t], np.mean([p[place] for place in like], axis=0))
    return u


@pytest.mark.parametrize(("k", "room"), [(1, 10**6), (2, 10**6), (1, 3), (2, 3)])
def test_it_is_its_definition(
    tiny_engine: Engine, tiny_oracle: Oracle, k: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it holds the logits of `room` tokens at once, and some contexts have more."""
    for name in ("HELD", "COMPARED"):
        monkeypatch.setattr(score, name, room * len(tiny_engine.tokenizer))
    rollouts = tiny_engine.generate(PROMPTS[:2], 5, Sampling(30, 0.5, stop_ids=(17, 4)), 3)
    p = np.zeros((*rollouts.tokens.shape, len(tiny_oracle.row_logits(rollouts, 0)[0])))
    p[rollouts.valid] = np.exp(log_softmax(tiny_oracle.logits(rollouts, rollouts.valid)))
    name = f"context:{k}"
    u, wanted = tiny_engine.score(rollouts, (name,))[name], defined(rollouts, p, k)
    assert (wanted > 1e-3).any() and (wanted == 0).any()
    np.testing.assert_allclose(u, wanted, atol=1e-5)
    assert (u[wanted == 0] == 0).all() and u.max() <= np.log(2)


@given(seeds, st.integers(1, 4))
def test_contexts_recur_where_the_same_tokens_stand_before(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, lengths = rng.integers(0, 2, (4, 7)), rng.integers(0, 8, 4)
    valid = np.arange(7) < lengths[:, None]
    found = like_contexts(tokens, valid, 4, k)
    places = np.argwhere(valid)
    for row, t in places:
        like = [(r, s) for r, s in places if before(tokens[r], s, k) == before(tokens[row], t, k)]
        same = {(r, s) for r, s in places if found[r, s] == found[row, t] >= 0}
        recurs = len({tuple(tokens[r, :s]) for r, s in like}) > 1
        assert same == (set(like) if recurs else set())
    assert (found[~valid] == -1).all()


@given(seeds)
def test_means_are_those_of_each_context_whatever_the_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, contexts = np.exp(log_softmax(rng.normal(0, 4, (12, 6)))), rng.integers(3, 7, 12)
    wanted = np.array([p[contexts == contexts[n]].mean(axis=0) for n in range(12)])
    for order in (np.arange(12), rng.permutation(12)):
        means, number = context_means(p[order], contexts[order])
        np.testing.assert_allclose(means[number], wanted[order], atol=1e-15)
