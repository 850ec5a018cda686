"""The rules against numbers recorded from their authors' public code (tests/golden).

The inputs make every share a whole number of tokens: the authors round most down, ictcli up.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import choose, loss_by_logp

from ictcli.algorithm.methods import METHODS, Choice, Scored
from ictcli.algorithm.objective import Objective, TokenTerms, was_clipped
from ictcli.algorithm.weights import group_advantage, normalise
from ictcli.types import FloatArray

RECORDED = json.loads((Path(__file__).parents[1] / "golden/authors_methods.json").read_text())
GIVEN = {name: np.array(values) for name, values in RECORDED["inputs"].items()}
VALID = np.arange(8)[None, :] < GIVEN["lengths"][:, None]
UNCLIPPED = Objective(eps_low=1.0, eps_high=1e9)


def recorded(name: str) -> dict[str, Any]:
    return RECORDED["methods"][name]


def batch(logp: FloatArray, advantage: FloatArray = GIVEN["advantage"], **stats: Any) -> Scored:
    return Scored(
        stats={"entropy": GIVEN["entropy"], **stats},
        logp=logp,
        advantage=advantage,
        correct=GIVEN["rewards"] > 0,
        valid=VALID,
        tokens=VALID.astype(np.int32),
        texts=[""] * 8,
        group=4,
        rng=np.random.default_rng(0),
    )


def loss_of(
    name: str, choice: Choice, logp: FloatArray, objective: Objective
) -> tuple[float, FloatArray]:
    weights = normalise(choice.kept, VALID, METHODS[name].normalisation, 8).astype(np.float64)
    advantage = np.broadcast_to(GIVEN["advantage"][:, None], VALID.shape)
    terms = TokenTerms(weights, advantage, GIVEN["logp_old"], others=choice.terms)
    return loss_by_logp(logp, VALID, terms, objective)


def test_entropy20_keeps_the_tokens_of_its_authors() -> None:
    kept = choose("entropy20", batch(GIVEN["logp_old"])).kept
    np.testing.assert_array_equal(kept, np.array(recorded("entropy20")["mask"], dtype=bool))


def test_kl_cov_has_the_loss_and_the_gradient_of_its_authors() -> None:
    """Unclipped, as their recipe is; they choose by the present log-probabilities."""
    choice = choose("kl_cov", batch(GIVEN["logp"]), ratio=0.1)
    loss, gradient = loss_of("kl_cov", choice, GIVEN["logp"], UNCLIPPED)
    np.testing.assert_allclose(loss, recorded("kl_cov")["loss"], rtol=1e-6)
    np.testing.assert_allclose(gradient, recorded("kl_cov")["gradient"], atol=1e-7)


@pytest.mark.parametrize(("moment", "logp"), [("on_policy", "logp_old"), ("off_policy", "logp")])
def test_lp_reg_has_the_loss_and_the_gradient_of_its_authors(moment: str, logp: str) -> None:
    """A recorded proxy of -10000 is noise. They choose by the present log-probabilities."""
    prob, proxy = np.exp(GIVEN[logp]), np.exp(GIVEN["proxy"])
    choice = choose("lp_reg", batch(GIVEN[logp], prob=prob, min_p=proxy), share=0.4)
    loss, gradient = loss_of("lp_reg", choice, GIVEN[logp], Objective(1.0, 9.0))
    np.testing.assert_allclose(loss, recorded("lp_reg")[moment]["loss"], rtol=1e-5)
    np.testing.assert_allclose(gradient, recorded("lp_reg")[moment]["gradient"], atol=1e-7)


def test_clip_cov_leaves_out_as_many_of_the_same_tokens_as_its_authors() -> None:
    left_out: set[tuple[int, int]] = set()
    for seed in range(200):
        kept = choose("clip_cov", batch(GIVEN["logp_old"]), seed, ratio=0.05, low=0.2, high=4).kept
        dropped = np.argwhere(VALID & ~kept)
        assert len(dropped) == recorded("clip_cov")["count"]
        left_out |= {(int(i), int(t)) for i, t in dropped}
    assert sorted(left_out) == [tuple(place) for place in recorded("clip_cov")["left_out"]]


def test_maxrl_has_the_advantages_of_its_authors() -> None:
    """But for their 1e-6 in the denominator."""
    A = group_advantage(GIVEN["rewards"], 4, scale=False)
    weight = choose("maxrl", batch(GIVEN["logp_old"], A)).weight
    assert weight is not None
    found = np.where(VALID, weight * A[:, None], 0)
    np.testing.assert_allclose(found, recorded("maxrl")["advantages"], rtol=1e-5)


def test_the_tv_clip_masks_and_trains_the_tokens_of_dppo_s_authors() -> None:
    objective = Objective(0.04, 0.06, clip_on="tv")
    A = np.broadcast_to(GIVEN["advantage"][:, None], VALID.shape)
    clipped = was_clipped(np, GIVEN["logp"], GIVEN["logp_old"], A, objective)
    np.testing.assert_array_equal(VALID & ~clipped, np.array(recorded("dppo")["mask"], dtype=bool))
    _, gradient = loss_of("dapo", Choice(VALID), GIVEN["logp"], objective)
    np.testing.assert_allclose(gradient, recorded("dppo")["gradient"], atol=1e-7)


@pytest.mark.parametrize(("variant", "lower_by"), [("O1", 1.0), ("C2", 0.9)])
def test_stare_weighs_the_tokens_as_its_authors_do(variant: str, lower_by: float) -> None:
    low = batch(GIVEN["logp_old"])
    choice = choose("stare", low, lower_by=lower_by, target_entropy=10)  # the gate is open
    np.testing.assert_array_equal(choice.weight, recorded("stare")[variant])
    closed = choose("stare", low, lower_by=lower_by, target_entropy=0)
    np.testing.assert_array_equal(closed.weight, np.ones(VALID.shape))


def test_wapo_has_the_loss_the_gradient_and_the_bins_of_its_authors() -> None:
    prob, purity = np.exp(GIVEN["logp_old"]), np.exp(-GIVEN["entropy"])
    given = batch(GIVEN["logp_old"], prob=prob, purity=purity)
    loss, gradient = loss_of("wapo", choose("wapo", given), GIVEN["logp"], Objective(1.0, 0.5))
    np.testing.assert_allclose(loss, recorded("wapo")["loss"], rtol=1e-6)
    np.testing.assert_allclose(gradient, recorded("wapo")["gradient"], atol=1e-7)
    for bins, mask in recorded("wapo")["bins"].items():
        kept = choose("wapo", given, bins=bins.split()).kept
        np.testing.assert_array_equal(kept, np.array(mask, dtype=bool))
