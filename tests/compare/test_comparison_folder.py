"""The folder of a comparison: who may work in it, and what replaces its report."""

import json
from pathlib import Path

import pytest

from ictcli.compare.folder import check_kind, check_report, opened
from ictcli.errors import InterruptedRunError, RunFailedError, UserError


def test_two_comparisons_never_share_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "one"
    with opened(place):
        taken = f"The folder {place} is in use by another process"
        with pytest.raises(UserError, match=taken) as refused, opened(place):
            pass
        assert "--out" in refused.value.hint
        (place / "run").mkdir()
    with opened(place):
        pass
    assert place.is_dir()
    with pytest.raises(UserError, match="no such method"), opened(tmp_path / "two"):
        raise UserError("There is no such method.")
    assert not (tmp_path / "two").exists()


def test_a_file_or_a_run_is_no_folder_of_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("")
    for name in ("file", "run"):
        with pytest.raises(UserError, match=r"is a file|of a run"), opened(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_and_a_key_say_what_goes_on(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="No space is left") as told, opened(tmp_path / "a"):
        raise OSError(28, "No space left on device", "x")
    assert "the same command goes on" in told.value.hint
    with pytest.raises(InterruptedRunError, match="Interrupted"), opened(tmp_path / "b"):
        raise KeyboardInterrupt


def test_a_folder_s_report_is_not_replaced_by_one_of_another_kind_or_of_less(
    tmp_path: Path,
) -> None:
    compared = tmp_path / "compared"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "comparison.json").touch()
    compared.mkdir()
    (compared / "comparison.json").touch()
    with pytest.raises(UserError, match="of a comparison, not of a study"):
        check_kind(compared, {"a"})
    check_kind(compared, ())
    check_kind(tmp_path, ())
    (tmp_path / "runs.csv").touch()
    with pytest.raises(UserError, match="of a study, not of a comparison"):
        check_kind(tmp_path, ())
    with pytest.raises(UserError, match="a report without b and compared"):
        check_kind(tmp_path, {"a", "c"})
    check_kind(tmp_path, {"a", "b", "compared", "c"})


def test_a_report_of_any_version_is_not_replaced_by_one_of_less(tmp_path: Path) -> None:
    variants = [{"label": "ict"}, {"label": "grpo", "lr": 1}]
    report = {"format": 1, "command": "ictcli compare x", "seeds": [0, 1], "variants": variants}
    (tmp_path / "comparison.json").write_text(json.dumps(report))
    check_report(tmp_path, ["ict", "grpo", "random"], [0, 1, 2])
    with pytest.raises(UserError, match="a report without grpo and 1 seed") as refused:
        check_report(tmp_path, ["ict"], [0])
    assert refused.value.hint.startswith("ictcli compare x makes that one again")
