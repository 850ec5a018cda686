"""The folder of a comparison: who may work in it, what replaces its report, what looks cost."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import write
from refusing import refused
from scipy import stats

from ictcli.compare.folder import check_kind, check_report, looks_of, opened
from ictcli.compare.spending import BEYOND, level_of, spent
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from tests.cases import FEW


def test_two_comparisons_never_share_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "one"
    with opened(place):
        taken = f"The folder {place} is in use by another process"
        with refused(taken, hint="--out"), opened(place):
            pass
        (place / "run").mkdir()
    with opened(place):
        pass
    assert place.is_dir()
    with pytest.raises(UserError, match="no such method"), opened(tmp_path / "two"):
        raise UserError("There is no such method.")
    assert not (tmp_path / "two").exists()


def test_a_file_or_a_run_is_no_folder_of_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    write(tmp_path / "run" / "recipe.toml", "")
    for name, words in (("file", "is a file"), ("run", "of a run")):
        with refused(words), opened(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_and_a_key_say_what_goes_on(tmp_path: Path) -> None:
    full = refused("No space is left", hint="the same command goes on", kind=RunFailedError)
    with full, opened(tmp_path / "a"):
        raise OSError(28, "No space left on device", "x")
    with refused("Interrupted", kind=InterruptedRunError), opened(tmp_path / "b"):
        raise KeyboardInterrupt


def test_no_report_is_replaced_by_another_kind_or_less(tmp_path: Path) -> None:
    for name in ("a", "b", "compared"):
        write(tmp_path / name / "comparison.json", {})
    with refused("of a comparison, not of a study"):
        check_kind(tmp_path / "compared", {"a"})
    check_kind(tmp_path / "compared", ())
    check_kind(tmp_path, ())
    (tmp_path / "runs.csv").touch()
    with refused("of a study, not of a comparison"):
        check_kind(tmp_path, ())
    with refused("a report without b and compared"):
        check_kind(tmp_path, {"a", "c"})
    check_kind(tmp_path, {"a", "b", "compared", "c"})


def test_a_report_of_any_version_is_not_replaced_by_one_of_less(tmp_path: Path) -> None:
    variants = [{"label": "ict"}, {"label": "grpo", "lr": 1}]
    report = {"format": 1, "command": "ictcli compare x", "seeds": [0, 1], "variants": variants}
    write(tmp_path / "comparison.json", report)
    check_report(tmp_path, ["ict", "grpo", "random"], [0, 1, 2])
    again = "ictcli compare x makes that one again"
    with refused("a report without grpo and 1 seed", hint=again):
        check_report(tmp_path, ["ict"], [0])


# What looks cost, against the literature and draws


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
    write(tmp_path / "looks.json", first.to_json())
    for planned in (None, 5, 8):  # the plan is that of the first look
        second = looks_of(tmp_path, 5, planned)
        assert (second.planned, second.seeds) == (8, [3, 5])
    assert looks_of(tmp_path, 3, None).seeds == [3]  # the same report again is no new look
    assert looks_of(tmp_path, 3, None).level < 0.05
    with refused("was looked at with 3 seeds: a report of 2"):
        looks_of(tmp_path, 2, None)


def test_the_report_of_an_older_version_was_a_look(tmp_path: Path) -> None:
    old = {"command": "ictcli compare", "seeds": [0, 1, 2], "variants": []}
    write(tmp_path / "comparison.json", old)
    again, more = looks_of(tmp_path, 3, None), looks_of(tmp_path, 5, None)
    assert again.level == pytest.approx(0.05)
    assert (more.planned, more.seeds) == (3, [3, 5]) and more.level < 0.05
