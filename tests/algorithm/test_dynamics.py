"""A step's diagnostics on a batch worked out by hand."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from ictcli.algorithm.branches import where_kept
from ictcli.algorithm.dynamics import diagnose
from ictcli.train.health import entropy_alarm
from ictcli.types import Rollouts

LENGTHS = [3, 2, 1, 3]
END = 9.0
"""Behind an end, where nobody looks."""
ENTROPY = [[0.1, 0.5, 0.9], [0.2, 0.6, END], [0.3, END, END], [0.4, 0.8, 0.7]]
PURITY = [[0.9, 0.5, 0.25], [0.8, 0.4, END], [0.7, END, END], [0.6, 0.2, 0.3]]
PROB = [[0.95, 0.5, 0.1], [0.7, 0.6, END], [0.8, END, END], [0.1, 0.3, 0.3]]
UNIQUE = [[0.0, 0.3, 0.2], [0.0, 0.1, END], [0.0, END, END], [0.0, 0.05, 0.4]]
KEPT = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]], dtype=bool)
ADVANTAGE = np.array([1.0, -1.0, 0.0, -0.5])


def rollouts(**stats: list[list[float]]) -> Rollouts:
    """Four rows in two groups, of 3, 2, 1 and 3 tokens."""
    return Rollouts(
        prompts=((1,), (2,)),
        group=2,
        tokens=np.ones((4, 3), dtype=np.int32),
        lengths=np.array(LENGTHS, dtype=np.int32),
        finished=np.ones(4, dtype=bool),
        logp=np.zeros((4, 3), dtype=np.float32),
        stats={name: np.array(values, dtype=np.float32) for name, values in stats.items()},
    )


def test_diagnose_of_a_batch_worked_out_by_hand() -> None:
    batch = rollouts(entropy=ENTROPY, purity=PURITY, prob=PROB, uniqueness=UNIQUE)
    report = diagnose(batch, ADVANTAGE, KEPT)
    beta = [0.9, 0.5, 0.25, 0.8, 0.4, 0.7, 0.6, 0.2, 0.3]
    H1 = [0.1, 0.5, 0.9, 0.2, 0.6, 0.3, 0.4, 0.8, 0.7]
    u = [0, 0.3, 0.2, 0, 0.1, 0, 0, 0.05, 0.4]
    ranks = np.corrcoef(rankdata(u), rankdata(H1))
    expected = {
        "entropy": sum(H1) / 9,
        "renyi2": sum(-math.log(b) for b in beta) / 9,
        "share_kept": 6 / 9,
        "kept_prob": (0.95 + 0.5 + 0.1 + 0.6 + 0.3 + 0.3) / 6,
        "regime_high": 3 / 6,  # 0.95 > 0.9, 0.6 > 0.4, 0.3 > 0.2
        "regime_low": 1 / 6,  # 0.1 < 0.25; 0.5 and 0.3 are on the edge
        "high_low_ratio": 4 / 2,  # the median H1 is 0.5: 0.9 0.6 0.8 0.7 over 0.1 0.5
        "share_kept_positive": 3 / 3,
        "share_kept_negative": 3 / 5,
        "uniqueness": sum(u) / 9,
        "uniqueness_entropy_spearman": float(ranks[0, 1]),
    }
    placed = where_kept(batch, KEPT)
    assert {name: report.pop(name) for name in placed} == placed
    assert report == pytest.approx(expected, rel=1e-6)


def test_diagnose_says_none_where_there_is_nothing_to_mean() -> None:
    none, stats = np.zeros((4, 3), dtype=bool), {"entropy": ENTROPY, "purity": PURITY, "prob": PROB}
    report = diagnose(rollouts(**stats, uniqueness=np.zeros((4, 3)).tolist()), np.zeros(4), none)
    nothing = {name for name, value in report.items() if value is None}
    assert nothing == {
        *("kept_prob", "branch_recall", "branch_precision", "kept_sure"),
        "regime_high",
        "regime_low",
        "high_low_ratio",
        "share_kept_positive",
        "share_kept_negative",
        "uniqueness_entropy_spearman",
    }
    assert report["share_kept"] == 0
    assert "uniqueness" not in diagnose(rollouts(**stats), np.zeros(4), none)


def test_the_alarm_rings_under_a_tenth_and_over_three_times_the_first_entropy() -> None:
    rung = [entropy_alarm(2.0, now) for now in (0.19, 0.21, 5.9, 6.1)]
    assert rung == ["collapse", None, None, "explosion"]
