"""Checkpoints: killed at any moment of a save a whole one is found, and the best stays."""

import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from deaths import SYNC, changes, deaths
from untrained import Number, begun, number, save

from ictcli.errors import RunFailedError, UserError
from ictcli.recipe.metrics import direction
from ictcli.runs import Run, checkpoints
from ictcli.runs.checkpoints import State, update_best
from ictcli.runs.records import StepMetrics
from tests.cases import first
from tests.conftest import PROFILE


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of things is looked at, no disk is."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def steps(run: Run) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in checkpoints.folders(run.folder)]


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.name != ".lock"]


EVERY = 1 if PROFILE == "thorough" else 5
"""Of the changes of the disk."""
WORK = {
    "the next one, better than the best": (6, 6),
    "the next one, the best stays": (6, 2),
    "the same one again": (4, 2),
}


def copy(before: Run, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before.folder, folder)


@pytest.mark.parametrize("what", first(list(WORK)))
def test_killed_at_any_change_of_the_disk_a_save_leaves_a_whole_checkpoint(
    tmp_path: Path, what: str
) -> None:
    """And what is done then ends as if nothing had happened."""
    step, best = WORK[what]
    before, folder = begun(tmp_path / "before"), tmp_path / "run"
    save(before, 2, best=2)
    save(before, 4, last=1, best=2)
    died = 0
    for _ in deaths(lambda: copy(before, folder), lambda: save(Run(folder), step, 1, best), EVERY):
        run, engine, said = Run(folder), number(), list[str]()
        state = run.restore(engine, said.append)
        assert state.step in (4, step) and engine.value == state.step
        assert said == [] and hidden(folder) == []
        assert checkpoints.pick(folder, "best").name == f"step-{state.best_step:06d}"
        assert len(run.metrics()) == state.step
        for missing in range(state.step + 1, 10):
            run.append(StepMetrics(step=missing, reward=missing / 10))
        save(run, step, 1, best)
        assert steps(run) == sorted({best, step})
        assert checkpoints.pick(folder, "best").name == f"step-{best:06d}"
        died += 1
    assert died > 20 // EVERY


def test_killed_at_any_change_of_the_disk_a_restore_is_done_again(tmp_path: Path) -> None:
    before, folder = begun(tmp_path / "before"), tmp_path / "run"
    save(before, 2)
    save(before, 4)
    (before.folder / "checkpoints" / ".step-000005.7.tmp").mkdir()
    (before.folder / "checkpoints" / "step-000004" / "state.json").unlink()

    def restore() -> None:
        Run(folder).restore(number(), lambda text: None)

    for _ in deaths(lambda: copy(before, folder), restore, EVERY):
        run, engine = Run(folder), number()
        assert run.restore(engine, lambda text: None).step == engine.value == 2
        assert len(run.metrics()) == 2 and hidden(folder) == []


def test_nothing_takes_its_name_or_goes_before_what_is_new_is_on_the_disk(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    save(run, 2, last=1)
    save(run, 4, last=1)
    pending: set[str] = set()
    names: set[str] = set()
    order = changes(lambda: save(run, 6, 1, best=6), tmp_path / "order.json")
    for event, paths in order:
        if event == "open":
            pending.add(paths[0])
        elif event == SYNC:
            pending.discard(paths[0])
            names.discard(paths[0])
        elif event in ("os.rename", "os.remove"):
            whole = [path for path in pending if Path(path).exists()]
            assert not whole, (event, paths)
            assert not [name for name in names if Path(name).exists()], (event, paths)
            if event == "os.rename":
                names.add(str(Path(paths[1]).parent))
    assert not pending and not names
    assert {event for event, _ in order} > {"open", "os.rename", "os.remove", SYNC}


def figure(name: str, value: float | None) -> StepMetrics:
    return StepMetrics(step=1).model_copy(update={name: value})


def test_the_best_is_the_first_of_the_best_of_all_that_were_judged(tmp_path: Path) -> None:
    """Against the plain maximum, from wherever the run is resumed."""
    chance = random.Random(3)
    for name in ("reward", "-entropy", "eval/pass@1"):
        run, state = begun(tmp_path / name.replace("/", "-")), State()
        rows: list[tuple[int, bool, float | None]] = []
        for step in range(1, 10):
            value = chance.choice([None, *(chance.randrange(4) / 4 for _ in range(3))])
            due = step % 2 == 0
            rows.append((step, due, value))
            state.step = step
            better = update_best(state, name, figure(direction(name)[0], value), due=due)
            if due or better:
                run.checkpoint(number(step), state, 2)
            if step in (4, 7):
                resumed = run.restore(engine := number(), print)
                for again, judged, told in rows[resumed.step :]:
                    resumed.step = again
                    update_best(resumed, name, figure(direction(name)[0], told), due=judged)
                assert engine.value <= step and resumed == state
                for missing in range(len(run.metrics()) + 1, 10):
                    run.append(StepMetrics(step=missing))
        sign = -1 if name == "-entropy" else 1
        judged = [
            (sign * value, -step)
            for step, due, value in rows
            if value is not None and (due or name == "eval/pass@1")
        ]
        top = -max(judged)[1]
        assert (state.best_step, state.best_metric) == (top, name)
        assert top in steps(run) and len(steps(run)) <= 3
        assert checkpoints.pick(run.folder, "best").name == f"step-{top:06d}"


@pytest.mark.parametrize("kind", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_save_that_fails_leaves_those_before_and_says_what_to_do(
    tmp_path: Path, kind: int
) -> None:
    class Failing(Number):
        def save(self, folder: Path) -> None:
            super().save(folder)
            raise OSError(kind, os.strerror(kind))

    run = begun(tmp_path / "run")
    save(run, 2)
    failing: Any = Failing(4)
    with pytest.raises(RunFailedError, match="step 4 could not be saved") as caught:
        run.checkpoint(failing, State(4), 1)
    assert "step-000002." in caught.value.message
    assert caught.value.hint.endswith(f"ictcli resume {run.folder}")
    assert ("free some space" in caught.value.hint) == (kind == errno.ENOSPC)
    assert steps(run) == [2] and hidden(run.folder) == []
    assert run.restore(number(), print).step == 2


def test_a_checkpoint_that_is_asked_for_is_found_or_refused(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    for step in (2, 4):
        save(run, step)
    assert checkpoints.pick(run.folder, "4").name == "step-000004"
    for which, told in (("best", "marked as the best"), ("3", "no checkpoint"), ("last", "is no")):
        with pytest.raises(UserError, match=told) as caught:
            checkpoints.pick(run.folder, which)
        assert "2, 4" in caught.value.hint or which == "last"
    (run.folder / "checkpoints" / "step-000004" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        checkpoints.pick(run.folder, "4")
