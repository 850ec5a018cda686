"""Where the gradient goes: shares that add up, and lengths that autograd finds too."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.attribution import KINDS, SURE, attribute, logit_gradient
from ictcli.algorithm.objective import Objective, TokenTerms, policy_loss
from ictcli.algorithm.weights import group_advantage, normalise
from ictcli.types import FloatArray, Rollouts

P, G, T, V = 3, 4, 6, 5
B = P * G


def drawn(seed: int) -> tuple[Rollouts, FloatArray, FloatArray]:
    """Rollouts, advantages (B,), and logits (B, T, V) in float64; some tokens are sure."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (B, T, V)) + 9 * (rng.random((B, T, 1)) < 0.3) * np.eye(V)[0]
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    tokens = np.array([[rng.choice(V, p=at) for at in row] for row in p])
    rollouts = Rollouts(
        prompts=((1,),) * P,
        group=G,
        tokens=tokens,
        lengths=rng.integers(1, T + 1, B),
        finished=np.ones(B, dtype=bool),
        logp=np.log(np.take_along_axis(p, tokens[..., None], -1)[..., 0]),
        stats={
            "prob": np.take_along_axis(p, tokens[..., None], -1)[..., 0],
            "purity": (p**2).sum(-1),
        },
    )
    return rollouts, group_advantage(rng.integers(0, 2, B).astype(float), G), logits


def masks(seed: int) -> tuple[Any, Any, Any]:
    kind = np.random.default_rng(seed).integers(0, 3, (2, B, T))
    return kind[0] == 0, kind[0] == 1, kind[1] == 0


@given(st.integers(0, 10**6))
def test_shares_add_up_to_one_or_there_is_no_gradient(seed: int) -> None:
    rollouts, advantage, _ = drawn(seed)
    valid = rollouts.valid
    weights = normalise(valid, valid, "sequence", T) * np.random.default_rng(seed).normal(size=T)
    shares = attribute(rollouts, weights, advantage, *masks(seed))
    assert shares.shape == (len(KINDS), 2, 2) and (shares >= 0).all()
    assert shares.sum() == pytest.approx(1.0 if advantage.any() else 0.0)


def test_shares_of_grpo_are_those_of_the_losss_own_gradient() -> None:
    torch = pytest.importorskip("torch")
    from ictcli_torch import namespace

    rollouts, advantage, logits = drawn(1)
    valid = rollouts.valid
    weights = normalise(valid, valid, "sequence", T)
    leaf = torch.tensor(logits[valid], requires_grad=True)
    terms = TokenTerms(
        torch.tensor(weights[valid], dtype=torch.float64),
        torch.tensor(np.broadcast_to(advantage[:, None], valid.shape)[valid]),
        targets=torch.tensor(rollouts.tokens[valid]),
    )
    loss, _, _ = policy_loss(namespace, leaf, terms, Objective())
    loss.backward()
    size = np.zeros(valid.shape)
    size[valid] = leaf.grad.norm(dim=-1).numpy()
    size /= size.sum()
    shares = attribute(rollouts, weights, advantage)
    sure, up = rollouts.stats["prob"] > SURE, (advantage > 0)[:, None]
    for kind, mask in (("sure", sure), ("rest", ~sure)):
        for sign, side in enumerate((up, ~up)):
            expected = size[valid & mask & side].sum()
            assert shares[KINDS.index(kind), sign, 0] == pytest.approx(expected, rel=1e-9)


@given(st.floats(0, 1), st.integers(0, 10**6))
def test_a_logit_gradient_survives_float32(p: float, seed: int) -> None:
    rest = np.random.default_rng(seed).dirichlet(np.ones(7)) * (1 - p)
    exact = np.sqrt((1 - p) ** 2 + (rest**2).sum())
    beta = np.float32(p**2 + (rest**2).sum())
    found = logit_gradient(np.array([np.float32(p)]), np.array([beta]))[0]
    assert found == pytest.approx(exact, rel=0.45, abs=1e-6)  # within its bounds where p is near 1
    assert found == pytest.approx(exact, abs=3e-4)


def test_towards_right_is_one_where_all_teaches_and_minus_one_where_all_misleads() -> None:
    rollouts, advantage, _ = drawn(4)
    weights = normalise(rollouts.valid, rollouts.valid, "sequence", T)
    up = np.broadcast_to((advantage > 0)[:, None], weights.shape)
    for (right, wrong), towards in (((up, ~up), 1), ((~up, up), -1)):
        shares = attribute(rollouts, weights, advantage, right, wrong).sum(axis=2)
        found = shares[0, 0] - shares[0, 1] + shares[1, 1] - shares[1, 0]
        assert found == pytest.approx(towards)
