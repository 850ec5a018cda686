"""Who may work in a run folder, and which folders stay when a run ends."""

from pathlib import Path

import pytest
from filled import fill, names

from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.recipe import Recipe
from ictcli.runs import Run, free_folder, is_run
from ictcli.runs.records import Environment


def test_a_folder_has_one_process_at_a_time(tmp_path: Path, recipe: Recipe) -> None:
    with (
        Run.create(tmp_path / "run", recipe),
        pytest.raises(UserError, match="in use by another process"),
    ):
        Run.open(tmp_path / "run")
    Run.open(tmp_path / "run")[0].__exit__(None, None, None)


def fail(run: Run, error: BaseException) -> None:
    with pytest.raises(type(error)), run:
        raise error


def test_a_run_that_could_not_start_leaves_its_place_free(tmp_path: Path, recipe: Recipe) -> None:
    folder = tmp_path / "run"
    run = Run.create(folder, recipe)
    run.write("environment.json", Environment())
    fail(run, UserError("no such model"))
    assert not folder.exists()
    Run.create(folder, recipe).__exit__(None, None, None)


ENDS = [KeyboardInterrupt(), InterruptedRunError("stopped"), OSError("disk"), ValueError("a bug")]


@pytest.mark.parametrize("error", ENDS)
def test_a_run_ended_from_outside_stays(
    tmp_path: Path, recipe: Recipe, error: BaseException
) -> None:
    fail(Run.create(tmp_path / "run", recipe), error)
    assert is_run(tmp_path / "run")


def test_a_run_that_did_something_stays(tmp_path: Path, recipe: Recipe) -> None:
    run = Run.create(tmp_path / "run", recipe)
    fill(run, 1)
    fail(run, RunFailedError("diverged"))
    assert names(tmp_path / "run") >= {"recipe.toml", "metrics.jsonl"}


def test_a_free_folder_is_free(tmp_path: Path) -> None:
    for name in ("a", "a-2", "a-3"):
        path = free_folder(tmp_path, "a")
        assert path == tmp_path / name
        path.mkdir()
