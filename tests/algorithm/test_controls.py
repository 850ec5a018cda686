"""Laws of the controls, over every method: what each keeps of the method's weights."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import BUILT_IN, choose, scored, seeds
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.controls import Control, Terms, controlled, sets_of
from ictcli.algorithm.methods import METHODS, Scored
from ictcli.algorithm.objective import Term, distance_from_old
from ictcli.algorithm.weights import normalise
from ictcli.types import FloatArray
from tests.cases import FEW, first

CONTROLS: tuple[Control, ...] = ("permuted", "position", "mass")


def weights_of(name: str, batch: Scored) -> FloatArray:
    """As a training step has them."""
    choice = choose(name, batch)
    weights = normalise(choice.kept, batch.valid, METHODS[name].normalisation, 32)
    if choice.weight is not None:
        weights = (weights * np.where(choice.kept, choice.weight, 0)).astype(np.float32)
    return weights


def given_to_others(
    control: Control, weights: FloatArray, batch: Scored, seed: int, terms: tuple[Term, ...] = ()
) -> tuple[FloatArray, Terms]:
    rng = np.random.default_rng(seed)
    return controlled(control, weights, terms, batch.advantage, batch.logp, batch.valid, rng)


@FEW
@pytest.mark.parametrize("name", BUILT_IN)
@given(batch=scored(), control=st.sampled_from(CONTROLS), seed=seeds)
def test_a_control_of_any_method_keeps_how_many_tokens_of_each_set_are_trained_and_how_much(
    name: str, batch: Scored, control: Control, seed: int
) -> None:
    weights = weights_of(name, batch)
    found, _ = given_to_others(control, weights, batch, seed)
    again, _ = given_to_others(control, weights, batch, seed)
    np.testing.assert_array_equal(found, again)
    assert found.dtype == weights.dtype and not found[~batch.valid].any()
    sets = sets_of(control, batch.valid, batch.advantage)
    before, after = (np.bincount(sets, w[batch.valid] != 0) for w in (weights, found))
    np.testing.assert_array_equal(before, after)
    for sign in (1, -1):
        rows = np.sign(batch.advantage) == sign
        mass = [np.abs(w[rows] * batch.advantage[rows, None]).sum() for w in (weights, found)]
        assert mass[1] == pytest.approx(mass[0], rel=1e-5)
    if control == "permuted":
        np.testing.assert_allclose(np.sort(found, axis=1), np.sort(weights, axis=1), rtol=1e-6)


@given(scored())
def test_a_place_holds_about_one_token_of_each_response_in_order(batch: Scored) -> None:
    places = np.full(batch.valid.shape, -1)
    places[batch.valid] = sets_of("position", batch.valid, np.ones(len(batch.valid)))
    lengths = batch.valid.sum(axis=1)
    for row, length in zip(places, lengths, strict=True):
        counts = np.bincount(row[:length] - places[batch.valid].min())
        assert (np.diff(row[:length]) >= 0).all()
        assert counts.max() <= -(-length // max(round(lengths.mean()), 1))


@pytest.mark.parametrize("control", first(CONTROLS, 2))
def test_each_token_of_a_set_is_as_likely_as_the_others(control: Control) -> None:
    lengths, advantage = np.array([3, 6, 6, 9]), np.array([1.0, 1.0, -1.0, 1.0])
    valid = np.arange(9)[None, :] < lengths[:, None]
    weights, draws = np.where(valid, np.eye(9)[2], 0.0), 1000
    rngs = map(np.random.default_rng, range(draws))
    many = [controlled(control, weights, (), advantage, weights, valid, rng)[0] for rng in rngs]
    share = np.mean([each != 0 for each in many], axis=0)[valid]
    sets = sets_of(control, valid, advantage)
    wanted = np.bincount(sets, weights[valid]) / np.maximum(np.bincount(sets), 1)
    error = np.sqrt(wanted * (1 - wanted) / draws)
    assert (np.abs(share - wanted[sets]) <= 5 * error[sets] + 1e-12).all()


@given(scored(), st.sampled_from(CONTROLS), seeds)
def test_the_terms_of_a_token_go_where_its_weight_goes(
    batch: Scored, control: Control, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    coefficient = np.where(batch.valid, rng.integers(0, 3, batch.valid.shape), 0).astype(float)
    targets = None, batch.logp + coefficient / 8
    terms = tuple(Term(distance_from_old, coefficient, target) for target in targets)
    batch = replace(batch, advantage=np.sign(batch.advantage))  # nothing is scaled
    weights, found = given_to_others(control, coefficient, batch, seed, terms)
    for term in found:
        np.testing.assert_allclose(term.coefficient, weights, rtol=1e-12)
    target = found[1].target
    assert target is not None
    np.testing.assert_allclose((target - batch.logp) * 8, weights, atol=1e-5)
