"""What the runs of a comparison trained."""

import pytest

from ictcli.recipe import load_recipe
from ictcli.runs.records import StepMetrics
from ictcli.train.finish import kept_tokens


def test_kept_tokens_of_high_for_each_of_low_entropy_are_counted_over_all_steps() -> None:
    ratios = (1.0, 3.0, None)  # of 10, 20 and 30 kept tokens; None: all of them are high
    steps = [
        StepMetrics(step=n, high_low_ratio=ratio, share_kept=0.1, length=n * 100.0)
        for n, ratio in enumerate(ratios, 1)
    ]
    found = kept_tokens(steps, load_recipe("chain", ["method=random", "warmup=0"]))
    assert found["high_low_ratio"] == pytest.approx((5 + 15 + 30) / (5 + 5))
