"""The run folder: what a process that died leaves, and what the next one makes of it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.recipe import Recipe, load_recipe
from ictcli.runs import Run, checkpoints, free_folder, is_run, read_rollouts
from ictcli.runs.checkpoints import State
from ictcli.runs.manifest import checksum
from ictcli.runs.read import read_lines
from ictcli.runs.records import Environment, StepMetrics, StepTimings, Summary
from ictcli.runs.rollouts import Description
from ictcli.tasks import find_task
from ictcli.train.launch import record_failure
from ictcli.train.sample import sample_batch
from ictcli.train.step import select
from tests.cases import first


def test_restore_goes_back_to_the_newest_checkpoint(
    tmp_path: Path, recipe: Recipe, engine: Engine
) -> None:
    with Run.create(tmp_path / "a" / "run", recipe):
        pass
    run, found = Run.open(tmp_path / "a" / "run")
    assert found == recipe
    with run:
        fill(run, 2)
        assert run.restore(engine, print) == State()  # to the beginning
        assert run.metrics() == [] and names(run.folder / "rollouts") == set()
        fill(run, 5)
        before = (run.folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        state = State(step=3, skipped=1, first_entropy=1.25, tokens_sampled=9, wall_s=0.5)
        run.checkpoint(engine, state, 2)
        assert run.restore(engine, print) == state
        assert (run.folder / "metrics.jsonl").read_bytes() == b"".join(before[:3])
        timings = read_lines(run.folder / "timings.jsonl", StepTimings)
        assert [line.step for line in timings] == [1, 2, 3]
        assert names(run.folder / "rollouts") == {f"step-00000{i}.safetensors" for i in (1, 2, 3)}


@pytest.mark.parametrize("torn", ['{"step": 3, "rew', '{"step": 3, "reward": 1.0}', "{"])
def test_a_torn_last_line_is_as_if_it_were_not_there(run: Run, engine: Engine, torn: str) -> None:
    fill(run, 2)
    whole = (run.folder / "metrics.jsonl").read_bytes()
    run.checkpoint(engine, State(step=2), 2)
    (run.folder / "metrics.jsonl").write_bytes(whole + torn.encode())
    assert [line.step for line in run.metrics()] == [1, 2]
    run.restore(engine, print)
    assert (run.folder / "metrics.jsonl").read_bytes() == whole


def test_a_checkpoint_of_another_format_is_refused(run: Run, engine: Engine) -> None:
    fill(run, 1)
    path = run.checkpoint(engine, State(step=1), 2) / "manifest.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "format": 99}))
    with pytest.raises(UserError, match="written by another version"):
        run.restore(engine, print)
    path.write_text(whole)
    assert run.restore(engine, print).step == 1
    path.unlink()  # the first format had none
    (path.parent / "state.json").write_text('{"format": 1}')
    with pytest.raises(UserError, match="written by another version"):
        run.restore(engine, print)


FILES = ["state.json", "manifest.json", "weights.safetensors", "optimizer.safetensors"]
DAMAGES = ["altered", "missing", "empty", "cut"]


@pytest.mark.parametrize(("damage", "file"), first([*product(DAMAGES, FILES)], 8))
def test_a_damaged_checkpoint_is_passed_over_with_a_word(
    run: Run, engine: Engine, file: str, damage: str
) -> None:
    said: list[str] = []
    fill(run, 4)
    run.checkpoint(engine, State(step=2), 2)
    path = run.checkpoint(engine, State(step=4), 2) / file
    whole = path.read_bytes()
    place = whole.index(b"sha256") + 10 if file == "manifest.json" else len(whole) - 3
    if damage == "missing":
        path.unlink()
    else:
        altered = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        path.write_bytes({"empty": b"", "cut": whole[:-9], "altered": altered}[damage])
    assert run.restore(engine, said.append).step == 2
    assert f"step-000004 is damaged ({file} is " in said[0] or file == "manifest.json"
    assert "step-000004 is damaged" in said[0] and "the one before" in said[0]
    assert len(run.metrics()) == 2
    (path.parent.parent / "step-000002" / file).write_bytes(b"")
    with pytest.raises(RunFailedError, match="No checkpoint"):
        run.restore(engine, said.append)


NO_STATES: list[tuple[str, str]] = [
    *(("step", text) for text in ('"x"', "4.0", "3", "true", "null", "-1", "[4]")),
    *(("budget", text) for text in ("-1", "[1]", '{"rows": "x", "of": [1024, null, 512]}')),
    *(("budget", text) for text in ('{"rows": 0}', '{"micro_tokens": -1}')),
    *(("best_value", text) for text in ("1" + 400 * "0", '"x"', "NaN", "0.5")),
    *(("best_metric", "5"), ("recipe", "5"), ("skipped", "[]"), ("nonfinite", '"1"')),
    *(("best_step", text) for text in ('"x"', "-1", "2", "9")),
    *(("wall_s", text) for text in ('"a"', "NaN", "-1", "1e999")),
    *(("train_s", "null"), ("tokens_sampled", "null"), ("tokens_sampled", str(1 << 80))),
    *(("tokens_kept", "-1"), ("first_entropy", '"a"'), ("first_entropy", "Infinity")),
]


def test_a_state_that_no_run_saves_is_damage_whatever_its_checksum_says(
    run: Run, engine: Engine
) -> None:
    fill(run, 4)
    run.checkpoint(engine, State(step=2), 2)
    path = run.checkpoint(engine, State(step=4), 2)
    whole = json.loads((path / "state.json").read_text())

    def write(text: str) -> None:
        (path / "state.json").write_text(text)
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["files"]["state.json"] = checksum(path / "state.json").to_json()
        (path / "manifest.json").write_text(json.dumps(manifest))

    write(json.dumps({**whole, "of a later version": [1]}))
    assert checkpoints.check(path).step == 4
    for key, text in NO_STATES:
        write(json.dumps({**whole, key: "HERE"}).replace('"HERE"', text))
        with pytest.raises(checkpoints.DamagedError, match=r"state\.json is"):
            checkpoints.check(path)
    said: list[str] = []
    assert run.restore(engine, said.append).step == 2
    assert "step-000004 is damaged (state.json is not what a run saves)" in said[0]


def test_what_somebody_put_beside_the_checkpoints_stays(run: Run, engine: Engine) -> None:
    fill(run, 3)
    run.checkpoint(engine, State(step=2), 1)
    (run.folder / "checkpoints" / "step-000002").rename(run.folder / "checkpoints/step-2.bak")
    (run.folder / "rollouts" / "step-000003.copy.safetensors").touch()
    run.checkpoint(engine, State(step=2), 1)
    run.restore(engine, print)
    assert (run.folder / "checkpoints" / "step-2.bak" / "state.json").is_file()
    assert (run.folder / "rollouts" / "step-000003.copy.safetensors").is_file()


def test_metrics_taken_out_behind_a_run_are_missed(run: Run, engine: Engine) -> None:
    fill(run, 3)
    run.checkpoint(engine, State(step=3), 2)
    (run.folder / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match="0 of 3 steps"):
        run.restore(engine, print)


def test_metrics_hold_no_number_that_is_not_one(
    run: Run,
) -> None:
    with pytest.raises(ValueError, match="finite number"):
        run.append(StepMetrics(step=1, loss=float("nan")))
    assert run.metrics() == []
    assert run.read("summary.json", Summary) is None


def test_recorded_rollouts_come_back_as_they_were(run: Run, recipe: Recipe, engine: Engine) -> None:
    batch = sample_batch(recipe, engine, find_task("chain"), 1)
    strange = [text + "\u2028\n\0é" for text in batch.texts]
    batch = replace(batch, texts=strange)
    selection = select(recipe, batch, 1)
    run.record_rollouts(1, batch, selection.kept, selection.weights)
    found: tuple[dict[str, np.ndarray], Description] = read_rollouts(
        run.folder / "rollouts" / "step-000001.safetensors"
    )
    arrays, about = found
    for name in ("tokens", "lengths", "finished", "logp"):
        np.testing.assert_array_equal(arrays[name], getattr(batch.rollouts, name))
    for name, values in batch.rollouts.stats.items():
        np.testing.assert_array_equal(arrays[f"stats/{name}"], values)
    np.testing.assert_array_equal(arrays["kept"], selection.kept)
    np.testing.assert_array_equal(arrays["weights"], selection.weights)
    assert about["texts"] == strange
    assert about["prompts"] == [list(prompt) for prompt in batch.rollouts.prompts]
    assert [problem["gold"] for problem in about["problems"]] == [p.gold for p in batch.problems]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def fill(run: Run, steps: int) -> None:
    for step in range(1, steps + 1):
        run.append(StepMetrics(step=step, reward=step / 3))
        run.append(StepTimings(step=step, sample_s=0.1))
        (run.folder / "rollouts").mkdir(exist_ok=True)
        (run.folder / "rollouts" / f"step-{step:06d}.safetensors").touch()


@pytest.fixture
def recipe(tiny_model: Path) -> Recipe:
    return load_recipe("chain", [f"model={tiny_model}", "prompts=2", "group=2"])


@pytest.fixture
def run(tmp_path: Path, recipe: Recipe) -> Iterator[Run]:
    with Run.create(tmp_path / "run", recipe) as made:
        yield made


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


def test_a_run_that_was_taken_away_is_not_made_anew(tmp_path: Path, recipe: Recipe) -> None:
    with (
        pytest.raises(FileNotFoundError),
        Run.create(tmp_path / "run", recipe) as run,
        record_failure(run),
    ):
        shutil.rmtree(run.folder)
        fill(run, 1)
    assert not run.folder.exists()


def test_a_free_folder_is_free(tmp_path: Path) -> None:
    for name in ("a", "a-2", "a-3"):
        path = free_folder(tmp_path, "a")
        assert path == tmp_path / name
        path.mkdir()
