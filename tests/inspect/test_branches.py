"""`ictcli inspect --branches`: where the tokens of methods lie."""

import numpy as np
import pytest
from synthetic import batch_of, recipe_of

from ictcli.algorithm.branches import where_kept
from ictcli.inspect.branches import SHARES, branches_of
from ictcli.train.step import select


def test_placements_are_those_of_what_training_would_keep() -> None:
    recipe, batch = recipe_of("method=ict"), batch_of(10)
    found = branches_of(recipe, batch, "made up", ["ict", "ict score=h", "kl", "grpo"])
    assert [row.method for row in found.placements] == ["ict"] * 3 + ["ict score=h"] * 3 + ["grpo"]
    assert set(found.missing) == {"kl"} and "did not record" in found.missing["kl"]
    for row, keep in zip(found.placements[:3], SHARES, strict=True):
        kept = select(recipe_of("method=ict", f"method.keep={keep}"), batch, 1).kept
        expected = where_kept(batch.rollouts, kept)
        for name in ("branch_recall", "kept_sure"):
            interval = getattr(row, name)
            assert interval.value == pytest.approx(expected[name])
            assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert row.kept == pytest.approx(kept[batch.rollouts.valid].mean())
        assert np.mean(row.by_entropy) == pytest.approx(row.kept, abs=0.01)
    dense = found.placements[-1]
    assert dense.branch_recall is not None and dense.branch_recall.value == dense.kept == 1
    assert dense.branch_precision == found.branch_share
    by_entropy = found.placements[4].by_entropy
    assert list(by_entropy) == sorted(by_entropy)  # the least sure are kept
