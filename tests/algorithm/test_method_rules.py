"""Laws of the methods' rules on random batches, each against its text in a plain loop."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn import BUILT_IN, ceil_percent, choose, parts, percents, scored, seeds
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
@pytest.mark.parametrize("name", BUILT_IN)
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
    assert set(first.terms) == {"kl_cov": {"kl_old"}, "lp_reg": {"proxy"}}.get(name, set())
    for term in first.terms:
        one, other = first.terms[term], again.terms[term]
        assert one.target is None or np.isfinite(one.target).all()
        assert not one.coefficient[~batch.valid].any()
        np.testing.assert_array_equal(one.coefficient, other.coefficient)


@FEW
@pytest.mark.parametrize("name", sorted({*BUILT_IN} - {"random"}))
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
    for name, term in plain.terms.items():
        np.testing.assert_array_equal(found.terms[name].coefficient, wide(term.coefficient))


@pytest.mark.parametrize("name", DENSE)
@given(batch=scored())
def test_dense_methods_keep_every_token(name: str, batch: Scored) -> None:
    np.testing.assert_array_equal(choose(name, batch).kept, batch.valid)


@pytest.mark.parametrize(
    ("name", "statistic", "given_options"),
    [
        ("ict", "uniqueness", {}),
        ("kl", "kl_from_mean", {}),
        ("kl", "kl_to_mean", {"reverse": True}),
        ("wasserstein", "wasserstein", {}),
    ],
)
@given(batch=scored(), percent=percents, scope=scopes)
def test_scored_methods_keep_the_best_of_the_share_and_never_a_zero(
    name: str,
    statistic: str,
    given_options: dict[str, Any],
    batch: Scored,
    percent: int,
    scope: str,
) -> None:
    score = batch.stats[statistic]
    kept = choose(name, batch, keep=percent / 100, scope=scope, **given_options).kept
    for part in parts(batch.valid, scope, batch.group):
        candidates = score[part][batch.valid[part]]
        promised = ceil_percent(percent, len(candidates))
        best = np.sort(candidates)[::-1][:promised]
        np.testing.assert_array_equal(np.sort(score[part][kept[part]])[::-1], best[best > 0])


@given(scored(), percents)
def test_advantage_power_multiplies_the_score_and_drops_what_has_no_advantage(
    batch: Scored, percent: int
) -> None:
    kept = choose("ict", batch, keep=percent / 100, scope="batch", advantage_power=0.1).kept
    u, A = batch.stats["uniqueness"], batch.advantage
    score = {
        (i, t): float(u[i, t]) * max(float(A[i]), 0.0) ** 0.1
        for i, t in np.argwhere(batch.valid)
        if A[i] > 0
    }
    promised = ceil_percent(percent, int(batch.valid.sum()))
    best = sorted((value for value in score.values() if value > 0), reverse=True)[:promised]
    found = sorted((score[i, t] for i, t in np.argwhere(kept)), reverse=True)
    assert found == pytest.approx(best)


@given(scored(), percents, st.sampled_from(["u", "u*h"]), st.floats(0, 2), st.floats(0.01, 1))
def test_ict_scores_unsure_tokens_alone_where_asked(
    batch: Scored, percent: int, score: str, min_entropy: float, max_prob: float
) -> None:
    u, H1, prob = (batch.stats[name] for name in ("uniqueness", "entropy", "prob"))
    asked = {"score": score, "min_entropy": min_entropy, "max_prob": max_prob}
    kept = choose("ict", batch, keep=percent / 100, scope="batch", **asked).kept
    values = {
        (int(i), int(t)): float(u[i, t]) * (float(H1[i, t]) if score == "u*h" else 1.0)
        for i, t in np.argwhere(batch.valid)
        if H1[i, t] >= min_entropy and prob[i, t] <= max_prob and u[i, t] > 0
    }
    promised = ceil_percent(percent, int(batch.valid.sum()))
    best = sorted(values.values(), reverse=True)[:promised]
    found = sorted((values[int(i), int(t)] for i, t in np.argwhere(kept)), reverse=True)
    assert found == pytest.approx(best, rel=1e-5)


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
    marks = choose("kl_cov", batch, ratio=share, coefficient=0.7).terms["kl_old"].coefficient
    assert marks.sum() == pytest.approx(0.7 * wanted)
    pulls = choose("lp_reg", batch, share=share, coefficient=0.7).terms["proxy"].coefficient
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
