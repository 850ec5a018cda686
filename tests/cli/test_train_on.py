"""`ictcli resume RUN steps=N`: a run that is trained on ends as one that was as long at once."""

import json
import shutil
import signal
from pathlib import Path

from processes import TRAINED, Ended, Processes, Small, wait_until

from ictcli.runs import Run


def result(run: Path) -> dict[str, bytes]:
    names = [path.relative_to(run) for path in run.glob("model/*.safetensors")]
    return {str(name): (run / name).read_bytes() for name in (*names, Path("metrics.jsonl"))}


def test_a_finished_run_trained_on_equals_the_longer_run(
    ictcli: Processes, small: Small, training: tuple[Path, Ended], tmp_path: Path
) -> None:
    ictcli.done("train", "chain", *small, *TRAINED, "steps=4", "--run", "short")
    short, (long, whole) = tmp_path / "short", training
    half = result(short)
    after = json.loads((short / "summary.json").read_text())["after"]
    running = ictcli.start("resume", "short", "steps=6")
    wait_until(lambda: len(Run(short).metrics()) >= 5)
    running.send(signal.SIGKILL)
    running.wait()
    assert not (short / "summary.json").exists()
    ended = ictcli.done("resume", "short", "steps=6", "--json")
    assert "note:" not in ended.err, ended.err
    assert result(short) == result(long)
    assert json.loads(ended.out)["after"] == json.loads(whole.out)["after"]
    kept = short / "model-step-000004" / "model.safetensors"
    assert kept.read_bytes() == half["model/model.safetensors"]
    evaluated = json.loads((short / "eval" / "step-000004.json").read_text())
    assert {name: evaluated[name] for name in after} == after
    assert json.loads((short / "environment.json").read_text())["extended_from"] == [4]
    assert "from 4 steps" in ictcli.run("runs", "show", "short").out
    ictcli.done("runs", "check", "short")


def test_a_best_checkpoint_is_offered(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    offer = "ictcli export run --checkpoint best"
    best = ("steps=1", "checkpoint.best=reward", "--run", "run")
    assert offer in ictcli.done("train", "chain", *small, *best).err
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    ended = ictcli.done("resume", "run")
    assert "next: " in ended.err and offer not in ended.err, ended.err


def test_a_decay_of_steps_is_said(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    decay = ("steps=2", "optimizer.decay=linear", "optimizer.lr_hold=0", "--run", "run")
    ictcli.done("train", "chain", *small, *decay)
    ended = ictcli.done("resume", "run", "steps=4")
    rates = [line.lr for line in Run(tmp_path / "run").metrics()]
    assert "note: optimizer.decay = 'linear' depends on steps" in ended.err
    for rate, step in ((rates[1], 2), (rates[2], 3)):
        assert rate is not None and f"{rate:.3g} at step {step}" in ended.err


def test_what_cannot_be_trained_on_is_left_alone(ictcli: Processes, trained: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    for override, words in (
        ("lr=1", "A run keeps the recipe it began with: lr cannot change. resume takes steps=N"),
        ("steps=5", "is a run of 6 steps, and steps=5 are fewer. ictcli train"),
        ("steps=many", "steps = 'many'"),
        ("steps", "is not of the form key=value"),
    ):
        assert words in ictcli.refused("resume", trained, override, "--trust")
    ended = ictcli.done("resume", trained, "steps=6", "--trust")
    assert f"ictcli resume {trained} steps=N trains on." in ended.err
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before
