"""Laws of the quantities at one position, in every array namespace, against scipy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawn import distributions, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from scipy.stats import wasserstein_distance

from ictcli.algorithm.quantities import STATISTICS, entropy, js, kl, purity, wasserstein
from ictcli.types import FloatArray

pairs = distributions(2)
DIVERGENCES = [each.formula for each in STATISTICS.values() if each.kind == "group"]
kl_to_mean = STATISTICS["kl_to_mean"].formula


def same(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@given(pairs)
def test_entropy_and_divergences_are_scipys(pair: FloatArray) -> None:
    """JS is the square of its distance, and Wasserstein's is over token ids."""
    p, q = pair
    same(entropy(np, pair), scipy_entropy(pair, axis=-1))
    mean = pair.mean(axis=0)  # above 0 wherever p is
    same(kl(np, p, mean), scipy_entropy(p, mean))
    same(kl_to_mean(np, mean, p), scipy_entropy(p, mean))
    with np.errstate(invalid="ignore"):  # the root of a sum that rounding can push below 0
        same(js(np, p, q), np.nan_to_num(jensenshannon(p, q) ** 2), 1e-14)
    ids = np.arange(len(p))
    same(wasserstein(np, p, q), wasserstein_distance(ids, ids, p, q), 1e-11)


@given(distributions())
def test_purity_is_the_collision_probability_and_renyi2_is_at_most_shannon(p: FloatArray) -> None:
    beta = purity(np, p)
    same(beta[0], math.fsum(x * x for x in p[0]))
    assert 1 / p.shape[1] - 1e-12 <= beta[0] <= 1 + 1e-12
    assert -math.log(beta[0]) <= entropy(np, p)[0] + 1e-12


@given(pairs)
def test_divergences_are_exactly_zero_on_equal_distributions_and_finite_on_all(
    pair: FloatArray,
) -> None:
    with np.errstate(all="raise", under="ignore"):
        p, q = pair
        for divergence in DIVERGENCES:
            assert divergence(np, p, p.copy()) == 0
            assert np.isfinite(divergence(np, p, q))
        assert np.isfinite([entropy(np, p), purity(np, p)]).all()


def test_kl_to_a_token_that_underflowed_is_large_not_negative() -> None:
    torch = pytest.importorskip("torch")
    p, q = torch.softmax(torch.tensor([110.0, 0.0]), dim=-1), torch.tensor([0.5, 0.5])
    assert p[1] == 0
    assert 40 < float(kl_to_mean(torch, p, q)) < 55
    assert float(kl_to_mean(torch, torch.tensor([1.0, 1e-43]), q)) == float(kl_to_mean(torch, p, q))


def namespace(name: str) -> tuple[Any, Callable[[FloatArray], Any]]:
    """The array module and how a NumPy array gets into it, in float32."""
    if name == "torch":
        torch = pytest.importorskip("torch")
        return torch, lambda values: torch.from_numpy(values.astype(np.float32))
    mx = pytest.importorskip("mlx.core")
    return mx, lambda values: mx.array(values.astype(np.float32))


@pytest.mark.parametrize("name", ["torch", "mlx"])
@given(pair=pairs)
def test_float32_namespaces_agree_with_numpy_in_float64(name: str, pair: FloatArray) -> None:
    xp, put = namespace(name)
    exact = pair.astype(np.float32).astype(np.float64)
    p, q = exact[:1], exact[1:]
    for quantity in (entropy, purity):
        same(quantity(xp, put(p)).tolist(), quantity(np, p), 1e-6)
    for divergence in (kl, kl_to_mean, js):
        same(divergence(xp, put(p), put(q)).tolist(), divergence(np, p, q), 2e-6)
    same(wasserstein(xp, put(p), put(q)).tolist(), wasserstein(np, p, q), 2e-5)


@pytest.mark.parametrize("name", ["torch", "mlx"])
@given(seed=seeds, digits=st.integers(0, 6), scale=st.sampled_from([1.0, 5.0, 30.0]))
def test_js_rounds_in_proportion_to_its_root_in_float32_and_never_below_zero(
    name: str, seed: int, digits: int, scale: float
) -> None:
    xp, put = namespace(name)
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, scale, 40)
    near = np.exp(np.stack([logits, logits + rng.normal(0, 10.0**-digits, 40)]))
    p, q = (near / near.sum(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    found, exact = float(js(xp, put(p), put(q))), float(js(np, p, q))
    assert found >= 0
    assert abs(found - exact) < 3e-7 * math.sqrt(exact) + 3e-6 * exact
