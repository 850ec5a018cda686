"""What looks cost, against the literature and draws, and that a folder knows of them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ictcli.compare.folder import looks_of
from ictcli.compare.spending import BEYOND, level_of, spent
from tests.cases import FEW


def test_equal_looks_have_the_bounds_of_lan_and_demets() -> None:
    """Five looks, two-sided 5 %, spent as by O'Brien and Fleming (Jennison and Turnbull 2000)."""
    levels = [level_of(range(1, looks + 1), 5) for looks in range(1, 6)]
    bounds = stats.norm.isf(np.array(levels) / 2)
    np.testing.assert_allclose(bounds, [4.877, 3.357, 2.680, 2.290, 2.031], atol=0.002)


@FEW
@given(st.sets(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 9))
def test_all_looks_together_spend_what_they_may(seeds: set[int], planned: int) -> None:
    looks = sorted(seeds)
    levels = [level_of(looks[:at], planned) for at in range(1, len(looks) + 1)]
    runs = np.random.default_rng(0).normal(size=(40_000, looks[-1])).cumsum(axis=1)
    z = np.abs(runs[:, np.array(looks) - 1]) / np.sqrt(looks)
    false = (z > stats.norm.isf(np.array(levels) / 2)).any(axis=1).mean()
    assert false == pytest.approx(spent(looks, planned)[-1], abs=0.005)
    assert spent(looks, planned)[-1] <= 0.05 + BEYOND


def test_one_look_at_what_was_planned_has_all_of_it() -> None:
    assert looks_of(Path("absent"), 5, 3).level == pytest.approx(0.05)  # a plan below the first
    for planned in (1, 3, 8):
        assert level_of([planned], planned) == pytest.approx(0.05, abs=1e-12)


def test_a_folder_knows_after_how_many_seeds_it_was_looked_at(tmp_path: Path) -> None:
    first = looks_of(tmp_path, 3, 8)
    assert (first.planned, first.seeds) == (8, [3])
    (tmp_path / "looks.json").write_text(json.dumps(first.to_json()))
    for planned in (None, 5, 8):  # the plan is that of the first look
        second = looks_of(tmp_path, 5, planned)
        assert (second.planned, second.seeds) == (8, [3, 5])
    assert looks_of(tmp_path, 3, None).seeds == [3]  # the same report again is no new look
    assert looks_of(tmp_path, 3, None).level < 0.05


def test_the_report_of_an_older_version_was_a_look(tmp_path: Path) -> None:
    old = {"command": "ictcli compare", "seeds": [0, 1, 2], "variants": []}
    (tmp_path / "comparison.json").write_text(json.dumps(old))
    again, more = looks_of(tmp_path, 3, None), looks_of(tmp_path, 5, None)
    assert again.level == pytest.approx(0.05)
    assert (more.planned, more.seeds) == (3, [3, 5]) and more.level < 0.05
