"""Laws of the parts of a gain: what is sharpening, and what is not."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.evaluation.sharpening import Sharpening, Solved, sharpening
from ictcli.types import FloatArray

OWN = 1.0
shares = st.lists(st.integers(0, 4).map(lambda c: c / 4), min_size=6, max_size=6).map(np.array)
curves = st.dictionaries(st.sampled_from([0.0, 0.3, 0.7]), shares, min_size=1)


def parts_of(own: FloatArray, others: Solved, after: Solved) -> Sharpening:
    found = sharpening({OWN: own, **others}, after)
    assert found is not None
    return found


@given(shares, curves, shares, shares)
def test_the_parts_add_up_to_the_gain_and_more_temperatures_lower_no_sharpening(
    own: FloatArray, others: Solved, after: FloatArray, more: FloatArray
) -> None:
    found = parts_of(own, others, {OWN: after})
    assert found.gain.value == pytest.approx(np.mean(after) - np.mean(own))
    parts = found.sharpening.value + found.not_sharpening.value
    assert parts == pytest.approx(found.gain.value)
    assert found.best.value == pytest.approx(max(map(np.mean, [own, *others.values()])))
    again = parts_of(own, {**others, 0.5: more}, {OWN: after})
    assert 0 <= found.sharpening.value <= again.sharpening.value
    assert again.not_sharpening.value <= found.not_sharpening.value


@given(shares, curves)
def test_a_model_that_only_sharpened_has_learnt_nothing(own: FloatArray, others: Solved) -> None:
    before = {OWN: own, **others}
    best = before[parts_of(own, others, {OWN: own}).best_temperature]
    found = parts_of(own, others, {OWN: best})
    assert found.not_sharpening.value == pytest.approx(0) and not found.not_sharpening.differs
    assert found.sharpening == found.gain


@given(shares, shares, st.permutations(range(6)))
def test_the_order_of_problems_does_not_matter(
    own: FloatArray, after: FloatArray, order: list[int]
) -> None:
    found = parts_of(own, {0.0: after}, {OWN: after})
    turned = parts_of(own[order], {0.0: after[order]}, {OWN: after[order]})
    for name in ("gain", "sharpening", "not_sharpening"):
        one, other = getattr(found, name), getattr(turned, name)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


def test_a_loss_is_not_divided() -> None:
    ones, none = np.ones(50), np.zeros(50)
    found = parts_of(ones * 0.9, {0.0: ones}, {OWN: none})
    assert found.gain.differs and "is a loss, so it is not divided" in found.sentence


@given(shares, shares)
def test_of_equal_temperatures_the_evaluation_s_own_is_the_best(
    own: FloatArray, after: FloatArray
) -> None:
    found = parts_of(own, {0.0: own, 0.7: own}, {OWN: after})
    assert found.best_temperature == OWN and found.sharpening.value == 0


def test_it_takes_several_temperatures_and_the_same_problems() -> None:
    one, two = np.array([0.5]), np.array([0.5, 1.0])
    assert sharpening({OWN: one}, {OWN: one}) is None
    assert sharpening({OWN: one, 0.0: one}, {OWN: two}) is None
    assert sharpening({OWN: one, 0.0: one}, {0.0: one}) is None


def test_the_sentence_has_its_figures_and_is_read_back() -> None:
    own, greedy, after = np.full(8, 0.25), np.full(8, 0.5), np.full(8, 0.75)
    found = parts_of(own, {0.0: greedy}, {OWN: after, 0.0: np.ones(8)})
    told = re.sub(r" \[[^]]*\]", "", found.sentence)
    for words in ("+50.0 points, +25.0 is sharpening and +25.0 is not", "is 50.0 %, at temp"):
        assert words in told
    best = parts_of(greedy, {0.0: own, 0.3: own}, {OWN: after, 0.0: np.ones(8)})
    assert best.sentence.startswith("The change in pass@1 at temperature 1, +25.0")
    assert not best.gain.differs and "is not significant" in best.sentence
    own, greedy, after = (np.repeat(each, 8) for each in (own, greedy, after))
    best = parts_of(greedy, {0.0: own, 0.3: own}, {OWN: after, 0.0: np.ones(64)})
    assert best.sentence.startswith("None of the change in pass@1 at temperature 1, +25.0")
    assert Sharpening.model_validate_json(found.model_dump_json()) == found
    assert found.model_dump(mode="json")["sentence"] == found.sentence
