"""The pivot of crossed data against draws, definitions and scipy; what it says could be seen."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from worlds import normal_cells, p_values

from ictcli.compare.crossed import infer, mean_squares
from tests.cases import first


@pytest.mark.parametrize(("S", "N"), [(2, 2), (5, 40), (40, 25)])
def test_the_quadrature_is_the_pivot_drawn_many_times(S: int, N: int) -> None:
    cells = normal_cells(S, N, S)
    found = infer(cells)
    assert found.p is not None and found.half() is not None
    rng = np.random.default_rng(0)
    _, squares = mean_squares(cells)
    sizes = (S - 1, N - 1, (S - 1) * (N - 1))
    a, b, e = (
        square * df / rng.chisquare(df, 300_000) for square, df in zip(squares, sizes, strict=True)
    )
    sd = np.sqrt((e + np.maximum(a - e, 0) + np.maximum(b - e, 0)) / (S * N))
    for distance, expected in ((found.mean, found.p), (found.half() or 0, 0.05)):
        drawn = 2 * stats.norm.sf(abs(distance) / sd).mean()
        assert drawn == pytest.approx(expected, rel=0.02, abs=4e-4)


def test_where_only_seeds_or_only_problems_vary_it_is_student_s_t() -> None:
    for S, N in ((5, 80), (80, 5), (4, 300)):
        for axis in (0, 1):
            few = normal_cells(S, N).mean(axis=1 - axis, keepdims=True)
            noise = 1e-7 * np.random.default_rng(1).normal(size=(S, N))
            expected: Any = stats.ttest_1samp(few.ravel(), 0.0)
            found = infer(few + noise)
            bounds = expected.confidence_interval(0.95)
            assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
            assert found.half() == pytest.approx((bounds.high - bounds.low) / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("S", "N", "of_seed"), first([(4, 60, 0.02), (10, 60, 0.1), (5, 200, 0.2)])
)
def test_the_detectable_difference_is_found_4_times_in_5(S: int, N: int, of_seed: float) -> None:
    """Cells drawn with the very mean squares that the detectable difference was computed of."""
    rng = np.random.default_rng(S)
    target = np.array([N * of_seed**2 + 1, 1 + S * 0.01, 1.0])
    cells = scaled(normal_cells(S, N), target)
    assert mean_squares(cells)[1] == pytest.approx(target)
    detectable = infer(cells).detectable()
    assert detectable is not None
    found = detectable + rng.normal(0, of_seed, (600, S, 1)) + rng.normal(0, 0.1, (600, 1, N))
    power = (p_values(found + rng.normal(0, 1, (600, S, N))) <= 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.06)


def scaled(cells: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The cells with their parts stretched to the mean squares `target`."""
    mean, squares = mean_squares(cells)
    a, b, e = np.sqrt(target / squares)
    seeds = cells.mean(axis=1, keepdims=True) - mean
    problems = cells.mean(axis=0, keepdims=True) - mean
    return mean + a * seeds + b * problems + e * (cells - mean - seeds - problems)
