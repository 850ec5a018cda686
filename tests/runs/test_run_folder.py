"""The run folder: what a process that died leaves, and what the next one makes of it."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from refusing import refused
from synthetic import batch_of, recipe_of
from untrained import begun, fill, names, number, save

from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.runs import Run, checkpoints, is_run, read_rollouts
from ictcli.runs.checkpoints import State
from ictcli.runs.manifest import checksum
from ictcli.runs.read import read_lines
from ictcli.runs.records import Environment, Failure, StepMetrics, StepTimings
from ictcli.train.launch import record_failure
from ictcli.train.step import select
from tests.cases import first


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return begun(tmp_path / "run", 4)


def test_restore_goes_back_to_the_newest_checkpoint(run: Run) -> None:
    assert run.restore(number(), print) == State()  # to the beginning
    assert run.metrics() == [] and names(run.folder / "rollouts") == set()
    fill(run, 5)
    before = (run.folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    state = State(step=3, skipped=1, first_entropy=1.25, tokens_sampled=9, wall_s=0.5)
    run.checkpoint(number(3), state, 2)
    assert run.restore(number(), print) == state
    assert (run.folder / "metrics.jsonl").read_bytes() == b"".join(before[:3])
    timings = read_lines(run.folder / "timings.jsonl", StepTimings)
    assert [line.step for line in timings] == [1, 2, 3]
    assert names(run.folder / "rollouts") == {f"step-00000{i}.safetensors" for i in (1, 2, 3)}


@pytest.mark.parametrize("torn", ['{"step": 5, "rew', '{"step": 5, "reward": 1.0}', "{"])
def test_a_torn_last_line_is_as_if_it_were_not_there(run: Run, torn: str) -> None:
    whole = (run.folder / "metrics.jsonl").read_bytes()
    save(run, 4)
    (run.folder / "metrics.jsonl").write_bytes(whole + torn.encode())
    assert [line.step for line in run.metrics()] == [1, 2, 3, 4]
    run.restore(number(), print)
    assert (run.folder / "metrics.jsonl").read_bytes() == whole


def test_a_checkpoint_of_another_format_is_refused(run: Run) -> None:
    path = save(run, 1) / "manifest.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "format": 99}))
    with refused("written by another version"):
        run.restore(number(), print)
    path.write_text(whole)
    assert run.restore(number(), print).step == 1


FILES = ["state.json", "manifest.json", "weights.safetensors", "optimizer.safetensors"]
DAMAGES = ["altered", "missing", "empty", "cut"]


@pytest.mark.parametrize(("damage", "file"), first([*product(DAMAGES, FILES)], 8))
def test_a_damaged_checkpoint_is_passed_over_with_a_word(run: Run, file: str, damage: str) -> None:
    said: list[str] = []
    two, path = save(run, 2), save(run, 4) / file
    whole = path.read_bytes()
    place = whole.index(b"sha256") + 10 if file == "manifest.json" else len(whole) - 3
    if damage == "missing":
        path.unlink()
    else:
        altered = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        path.write_bytes({"empty": b"", "cut": whole[:-9], "altered": altered}[damage])
    assert run.restore(number(), said.append).step == 2
    assert f"step-000004 is damaged ({file} is " in said[0] or file == "manifest.json"
    assert "step-000004 is damaged" in said[0] and "the previous checkpoint" in said[0]
    assert len(run.metrics()) == 2
    (two / file).write_bytes(b"")
    with pytest.raises(RunFailedError, match="No checkpoint"):
        run.restore(number(), said.append)


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


def test_a_state_that_no_run_saves_is_damage_whatever_its_checksum_says(run: Run) -> None:
    path = save(run, 4)
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


def test_what_somebody_put_beside_the_checkpoints_stays(run: Run) -> None:
    kept = (run.folder / "checkpoints/step-2.bak", run.folder / "rollouts/step-3.copy.safetensors")
    save(run, 2, last=1).rename(kept[0])
    kept[1].touch()
    save(run, 2, last=1)
    run.restore(number(), print)
    assert (kept[0] / "state.json").is_file() and kept[1].is_file()


def test_metrics_taken_out_behind_a_run_are_missed(run: Run) -> None:
    save(run, 3)
    (run.folder / "metrics.jsonl").unlink()
    with refused("0 of 3 steps"):
        run.restore(number(), print)


def test_recorded_rollouts_come_back_as_they_were(run: Run) -> None:
    batch = batch_of(1)
    batch = replace(batch, texts=[text + "\u2028\n\0é" for text in batch.texts])
    selection = select(recipe_of(), batch, 1)
    run.record_rollouts(1, batch, selection.kept, selection.weights)
    arrays, about = read_rollouts(run.folder / "rollouts" / "step-000001.safetensors")
    rollouts = batch.rollouts
    expected = {name: getattr(rollouts, name) for name in ("tokens", "lengths", "finished", "logp")}
    expected |= {f"stats/{name}": values for name, values in rollouts.stats.items()}
    expected |= {"kept": selection.kept, "weights": selection.weights}
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values)
    assert about["texts"] == batch.texts
    assert about["prompts"] == [list(prompt) for prompt in rollouts.prompts]
    assert [problem["gold"] for problem in about["problems"]] == [p.gold for p in batch.problems]


def test_a_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    folder, recipe = tmp_path / "deep" / "run", recipe_of()
    with Run.create(folder, recipe), refused("in use by another process"):
        Run.open(folder)
    run, found = Run.open(folder)
    with run:
        assert found == recipe


@pytest.mark.parametrize(
    ("error", "steps", "stays"),
    [
        *((UserError("no such model"), 0, False), (KeyboardInterrupt(), 0, True)),
        *((InterruptedRunError("stopped"), 0, True), (OSError("disk"), 0, True)),
        *((ValueError("a bug"), 0, True), (RunFailedError("diverged"), 1, True)),
    ],
)
def test_a_run_that_could_not_start_leaves_its_place_free_and_any_other_stays(
    tmp_path: Path, error: BaseException, steps: int, stays: bool
) -> None:
    run = Run.create(tmp_path / "run", recipe_of())
    run.write("environment.json", Environment())
    fill(run, steps)
    with pytest.raises(type(error)), run:
        raise error
    assert run.folder.exists() == is_run(run.folder) == stays
    assert not stays or len(run.metrics()) == steps


def test_an_error_of_code_leaves_its_traceback_and_one_of_the_user_none(tmp_path: Path) -> None:
    for error, traced in ((ValueError("boom"), True), (UserError("no", "yes"), False)):
        run = Run.create(tmp_path / type(error).__name__, recipe_of())
        fill(run, 1)
        with pytest.raises(type(error)), run, record_failure(run, recipe_of()):
            raise error
        found = run.read("failure.json", Failure)
        assert found and found.error and (" in test_an_error" in found.traceback) == traced


def test_a_run_that_was_taken_away_is_not_made_anew(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", recipe_of())
    with pytest.raises(FileNotFoundError), run, record_failure(run, recipe_of()):
        shutil.rmtree(run.folder)
        run.append(StepMetrics(step=1))
    assert not run.folder.exists()
