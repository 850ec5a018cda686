"""Laws of the normalisations: what the weights of the kept tokens add up to."""

import numpy as np
import pytest
from drawn import Ragged, percents, ragged
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.selection import top_share
from ictcli.algorithm.weights import Normalisation, normalise
from ictcli.types import BoolArray

NORMALISATIONS: tuple[Normalisation, ...] = ("sequence", "kept", "tokens", "constant")
MAX_TOKENS = 64


def some(rows: Ragged, percent: int) -> BoolArray:
    """A mask of kept tokens; a row whose scores are all 0 has none."""
    return top_share(rows.score, rows.valid, percent / 100)


@given(ragged(), percents)
def test_sequence_gives_every_row_with_kept_tokens_one_over_b(rows: Ragged, percent: int) -> None:
    kept = some(rows, percent)
    weights = normalise(kept, rows.valid, "sequence", MAX_TOKENS)
    np.testing.assert_allclose(weights.sum(axis=1), kept.any(axis=1) / len(kept), rtol=1e-6)


@given(ragged(), percents)
def test_totals_of_the_other_normalisations(rows: Ragged, percent: int) -> None:
    kept = some(rows, percent)
    B, count, tokens = len(kept), int(kept.sum()), int(rows.valid.sum())
    totals = {
        "kept": float(count > 0),
        "tokens": count / tokens,
        "constant": count / (B * MAX_TOKENS),
    }
    for name in NORMALISATIONS[1:]:
        found = normalise(kept, rows.valid, name, MAX_TOKENS)
        assert found.sum(dtype=np.float64) == pytest.approx(totals[name], rel=1e-6)
        assert len(np.unique(found[kept])) <= 1


@given(ragged(), percents, st.sampled_from(NORMALISATIONS))
def test_a_weight_is_positive_exactly_where_a_token_is_kept(
    rows: Ragged, percent: int, name: Normalisation
) -> None:
    kept = some(rows, percent)
    weights = normalise(kept, rows.valid, name, MAX_TOKENS)
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights > 0, kept)
    assert (weights >= 0).all()


@given(ragged())
def test_sequence_with_every_token_kept_is_grpo(rows: Ragged) -> None:
    lengths = rows.valid.sum(axis=1)
    expected = [
        [1 / len(lengths) / length if t < length else 0 for t in range(rows.valid.shape[1])]
        for length in lengths
    ]
    found = normalise(rows.valid, rows.valid, "sequence", MAX_TOKENS)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@given(ragged())
def test_kept_and_tokens_agree_where_every_token_is_kept(rows: Ragged) -> None:
    np.testing.assert_array_equal(
        normalise(rows.valid, rows.valid, "kept", MAX_TOKENS),
        normalise(rows.valid, rows.valid, "tokens", MAX_TOKENS),
    )


@given(ragged(), percents, st.sampled_from(NORMALISATIONS), st.integers(1, 9))
def test_padded_columns_change_no_weight(
    rows: Ragged, percent: int, name: Normalisation, more: int
) -> None:
    kept = some(rows, percent)
    plain = normalise(kept, rows.valid, name, MAX_TOKENS)
    wide_kept, wide_valid = (np.pad(mask, ((0, 0), (0, more))) for mask in (kept, rows.valid))
    wide = normalise(wide_kept, wide_valid, name, MAX_TOKENS)
    np.testing.assert_array_equal(wide, np.pad(plain, ((0, 0), (0, more))))


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_nothing_kept_weighs_nothing(name: Normalisation) -> None:
    nothing = np.zeros((2, 3), dtype=bool)
    assert not normalise(nothing, nothing, name, MAX_TOKENS).any()
