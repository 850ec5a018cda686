"""The weights of kept tokens are those of each normalisation's definition, in a plain loop."""

import numpy as np
import pytest
from drawn import Ragged, percents, ragged
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.selection import top_share
from ictcli.algorithm.weights import Normalisation, normalise

NORMALISATIONS: tuple[Normalisation, ...] = ("sequence", "kept", "tokens", "constant")
MAX_TOKENS = 64


@pytest.mark.parametrize("name", NORMALISATIONS)
@given(rows=ragged(), percent=percents, more=st.integers(0, 9))
def test_a_weight_is_its_definition_whatever_the_padding(
    name: Normalisation, rows: Ragged, percent: int, more: int
) -> None:
    """A row whose scores are all 0 keeps nothing, weighs nothing, and counts in B."""
    kept = top_share(rows.score, rows.valid, percent / 100)
    B, expected = len(kept), np.zeros(kept.shape)
    for i, t in np.argwhere(kept):
        expected[i, t] = {
            "sequence": 1 / (B * kept[i].sum()),
            "kept": 1 / kept.sum(),
            "tokens": 1 / rows.valid.sum(),
            "constant": 1 / (B * MAX_TOKENS),
        }[name]
    padding = ((0, 0), (0, more))
    found = normalise(np.pad(kept, padding), np.pad(rows.valid, padding), name, MAX_TOKENS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.pad(expected, padding), rtol=1e-6)


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_nothing_kept_weighs_nothing(name: Normalisation) -> None:
    nothing = np.zeros((2, 3), dtype=bool)
    assert not normalise(nothing, nothing, name, MAX_TOKENS).any()
