"""The folder of a comparison: who may work in it, and what is said of its report."""

from pathlib import Path

import pytest
from made_runs import write
from refusing import refused

from ictcli.compare.folder import notes_on_report, opened
from ictcli.errors import InterruptedRunError, RunFailedError, UserError


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
    full = refused("No space is left", hint="the same command continues", kind=RunFailedError)
    with full, opened(tmp_path / "a"):
        raise OSError(28, "No space left on device", "x")
    with refused("Interrupted", kind=InterruptedRunError), opened(tmp_path / "b"):
        raise KeyboardInterrupt


def test_more_seeds_than_a_report_of_any_version_has_are_noted(tmp_path: Path) -> None:
    write(tmp_path / "comparison.json", {"format": 1, "seeds": [0, 1]})
    (note,) = notes_on_report(tmp_path, 3)
    assert "already has a report on 2 seeds" in note and not notes_on_report(tmp_path, 2)
