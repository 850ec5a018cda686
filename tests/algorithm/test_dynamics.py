"""The first-order laws of Renyi-2 entropy against finite differences, and the A.3.5 experiment."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from drawn import seeds
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.dynamics import predicted_change, renyi2, validate
from ictcli.types import FloatArray


@dataclass(frozen=True)
class Position:
    """Logits and a direction (V,), and one of its tokens."""

    logits: FloatArray
    direction: FloatArray
    token: int


@st.composite
def drawn_positions(draw: st.DrawFn) -> Position:
    V, scale = draw(st.integers(2, 20)), draw(st.sampled_from([0.1, 1.0, 4.0]))
    rng = np.random.default_rng(draw(seeds))
    return Position(rng.normal(0, scale, V), rng.normal(0, 1, V), int(rng.integers(V)))


positions = drawn_positions()


@given(positions, st.floats(-1000, 1000))
def test_a_constant_on_all_logits_changes_nothing(at: Position, constant: float) -> None:
    plain = predicted_change(at.logits, at.direction)
    assert predicted_change(at.logits + constant, at.direction) == pytest.approx(plain, abs=1e-10)
    assert predicted_change(at.logits, at.direction + constant) == pytest.approx(plain, abs=1e-10)
    assert renyi2(at.logits + constant) == pytest.approx(renyi2(at.logits), abs=1e-10)


@given(positions)
def test_predicted_change_is_the_derivative_of_renyi2(at: Position) -> None:
    h = 1e-5
    up, down = renyi2(at.logits + h * at.direction), renyi2(at.logits - h * at.direction)
    assert predicted_change(at.logits, at.direction) == pytest.approx(
        (up - down) / (2 * h), abs=1e-7
    )


def test_validate_reports_measured_against_predicted() -> None:
    before, after = np.log([[0.5, 0.5], [0.9, 0.1]]), np.log([[0.6, 0.4], [0.8, 0.2]])
    measured = [-math.log(0.52 / 0.5), -math.log(0.68 / 0.82)]
    # for two tokens: -2 (p2 - p) of the first token, times the change of the log odds
    odds = [math.log(0.6 / 0.4), math.log(4) - math.log(9)]
    predicted = [-2 * (0.5 - 0.5) * odds[0], -2 * (0.81 / 0.82 - 0.9) * odds[1]]
    report = validate(before, after)
    assert report["probe_change"] == pytest.approx(sum(measured) / 2)
    errors = [abs(m - p) for m, p in zip(measured, predicted, strict=True)]
    assert report["probe_error"] == pytest.approx(sum(errors) / 2)
    assert report["probe_pearson"] == pytest.approx(1)  # two points lie on a line


def test_validate_leaves_a_correlation_of_nothing_undefined() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 4))
    still = validate(logits, logits.copy())
    assert (still["probe_pearson"], still["probe_error"], still["probe_change"]) == (None, 0, 0)
    empty = validate(np.zeros((0, 4)), np.zeros((0, 4)))
    assert (empty["probe_pearson"], empty["probe_error"]) == (None, None)
    assert empty["probe_positions"] == 0
