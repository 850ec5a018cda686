"""Laws of the methods that choose tokens, each against its text, and what all declare."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn import EVERY, ceil_percent, choose, keeps_the_best, parts, percents, scored, seeds
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.methods import Scored
from ictcli.types import BoolArray, FloatArray, IntArray
from tests.cases import FEW

scopes = st.sampled_from(["response", "group", "batch"])
DENSE = ("grpo", "dapo", "dr_grpo")
SELECTIVE: dict[str, dict[str, Any]] = {
    "clip_cov": {"ratio": 0.1, "low": 0.2, "high": 4.0},
    "kl_cov": {"ratio": 0.1},
    "lp_reg": {"share": 0.2},
    "stapo": {"prob_below": 0.1},
}


@FEW
@pytest.mark.parametrize("name", EVERY)
@given(batch=scored(), seed=seeds)
def test_every_method_keeps_only_real_tokens_and_the_same_ones_from_the_same_seed(
    name: str, batch: Scored, seed: int
) -> None:
    first, again = (choose(name, batch, seed, **SELECTIVE.get(name, {})) for _ in range(2))
    assert first.kept.dtype == np.bool_
    assert not (first.kept & ~batch.valid).any()
    np.testing.assert_array_equal(first.kept, again.kept)
    if first.weight is not None and again.weight is not None:
        np.testing.assert_array_equal(first.weight[batch.valid], again.weight[batch.valid])
        assert np.isfinite(first.weight[batch.valid]).all()
    assert len(first.terms) == (name in ("kl_cov", "lp_reg"))
    for one, other in zip(first.terms, again.terms, strict=True):
        assert one.target is None or np.isfinite(one.target).all()
        assert not one.coefficient[~batch.valid].any()
        np.testing.assert_array_equal(one.coefficient, other.coefficient)


@FEW
@pytest.mark.parametrize("name", sorted({*EVERY} - {"random"}))
@given(batch=scored(), more=st.integers(1, 5))
def test_padded_columns_change_no_choice(name: str, batch: Scored, more: int) -> None:
    def wide(values: FloatArray | BoolArray | IntArray) -> Any:
        return np.pad(values, ((0, 0), (0, more)))

    by_token = {key: wide(getattr(batch, key)) for key in ("logp", "valid", "tokens")}
    stats = {key: wide(values) for key, values in batch.stats.items()}
    padded = replace(batch, stats=stats, **by_token)
    given_options = SELECTIVE.get(name, {})
    found, plain = choose(name, padded, **given_options), choose(name, batch, **given_options)
    np.testing.assert_array_equal(found.kept, wide(plain.kept))
    if found.weight is not None and plain.weight is not None:
        T, valid = batch.valid.shape[1], batch.valid
        np.testing.assert_array_equal(found.weight[:, :T][valid], plain.weight[valid])
    for term, padded_term in zip(plain.terms, found.terms, strict=True):
        np.testing.assert_array_equal(padded_term.coefficient, wide(term.coefficient))


@pytest.mark.parametrize("name", DENSE)
@given(batch=scored())
def test_dense_methods_keep_every_token(name: str, batch: Scored) -> None:
    np.testing.assert_array_equal(choose(name, batch).kept, batch.valid)


UNSURE = {"score": "u*h", "max_prob": 0.4}
SCORES: list[tuple[str, dict[str, Any], Callable[[Scored], Any]]] = [
    ("ict", {}, lambda x: x.stats["uniqueness"]),
    ("ict", {"advantage_power": 0.1}, lambda x: x.stats["uniqueness"] * gain(x)[:, None]),
    (
        "ict",
        UNSURE,
        lambda x: x.stats["uniqueness"] * x.stats["entropy"] * (x.stats["prob"] <= 0.4),
    ),
    ("kl", {}, lambda x: x.stats["kl_from_mean"]),
    ("kl", {"reverse": True}, lambda x: x.stats["kl_to_mean"]),
    ("wasserstein", {}, lambda x: x.stats["wasserstein"]),
]


def gain(batch: Scored) -> FloatArray:
    return np.array([float(A) ** 0.1 if A > 0 else 0.0 for A in batch.advantage])


@pytest.mark.parametrize(("name", "options", "score"), SCORES)
@given(batch=scored(), percent=percents, scope=scopes)
def test_scored_methods_keep_the_best_of_the_share_and_never_a_zero(
    name: str,
    options: dict[str, Any],
    score: Callable[[Scored], Any],
    batch: Scored,
    percent: int,
    scope: str,
) -> None:
    kept = choose(name, batch, keep=percent / 100, scope=scope, **options).kept
    assert keeps_the_best(kept, score(batch), batch, percent, scope)


@given(scored(), percents)
def test_gmts_keeps_the_highest_products_of_entropy_and_advantage(
    batch: Scored, percent: int
) -> None:
    product = batch.stats["entropy"] * np.abs(batch.advantage)[:, None]
    assert keeps_the_best(choose("gmts", batch, keep=percent / 100).kept, product, batch, percent)


@given(scored(), percents, scopes)
def test_frequent_is_the_exact_complement_of_the_top_share(
    batch: Scored, percent: int, scope: str
) -> None:
    keep, u = percent / 100, batch.stats["uniqueness"]
    frequent = choose("frequent", batch, keep=keep, scope=scope).kept
    unique = choose("ict", batch, keep=keep, scope=scope).kept
    assert not (frequent & unique).any()
    for part in parts(batch.valid, scope, batch.group):
        tokens = int(batch.valid[part].sum())
        assert frequent[part].sum() == tokens - ceil_percent(percent, tokens)
        left_out = u[part][batch.valid[part] & ~frequent[part]]
        assert left_out.min(initial=1) >= u[part][frequent[part]].max(initial=0)


@given(scored(), percents, seeds)
def test_shares_of_the_batch_are_rounded_up_and_marks_have_their_coefficients(
    batch: Scored, percent: int, seed: int
) -> None:
    """Which tokens these are: test_recorded_methods."""
    share, wanted = percent / 100, ceil_percent(percent, int(batch.valid.sum()))
    assert choose("entropy20", batch, keep=share).kept.sum() == wanted
    kept = choose("clip_cov", batch, seed, ratio=share, low=-1e9, high=1e9).kept
    assert (batch.valid & ~kept).sum() == wanted
    marks = choose("kl_cov", batch, ratio=share, coefficient=0.7).terms[0].coefficient
    assert marks.sum() == pytest.approx(0.7 * wanted)
    pulls = choose("lp_reg", batch, share=share, coefficient=0.7).terms[0].coefficient
    blamed = batch.valid & (batch.advantage < 0)[:, None]
    assert set(pulls[blamed]) <= {0.0, 0.7} and not pulls[~blamed].any()
    assert np.count_nonzero(pulls) <= ceil_percent(percent, int(blamed.sum()))


@given(scored(), st.sampled_from([0.0, 0.5, 0.75, 1.0]))
def test_stapo_drops_what_its_rule_says(batch: Scored, quantile: float) -> None:
    prob, H1 = batch.stats["prob"], batch.stats["entropy"]
    tokens = [(int(i), int(t)) for i, t in np.argwhere(batch.valid)]
    low = sorted(float(H1[i, t]) for i, t in tokens if prob[i, t] < 0.1 and batch.correct[i])
    expected = batch.valid.copy()
    if low:
        place = quantile * (len(low) - 1)
        below, above = low[int(place)], low[min(int(place) + 1, len(low) - 1)]
        threshold = below + (above - below) * (place - int(place))
        for i, t in tokens:
            if batch.advantage[i] > 0 and prob[i, t] < 0.1 and H1[i, t] < threshold - 1e-9:
                expected[i, t] = False
    found = choose("stapo", batch, prob_below=0.1, entropy_quantile=quantile).kept
    np.testing.assert_array_equal(found, expected)
