"""Laws of several processes on one run: rank 0 alone writes, and nothing else changes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from processes import QUIET, Running, complete, ending, finish, free_port, launch
from safetensors.torch import load_file

from ictcli.cli import cli
from ictcli.runs import Run
from tests.cases import first
from tests.conftest import PROFILE

SMALL = [
    *("steps=2", "prompts=3", "group=4", "max_tokens=16", "warmup=1", "keep=0.3"),
    *("eval.problems=3", "eval.n=1", "eval.k=[1]"),
    *("record.rollouts_every=1", "optimizer.eps=0.01"),
    *("checkpoint.every=1", "checkpoint.last=9"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


KINDS = ("sharded", "replicated", "replicated adapters", "sharded in 16 bits")


def settings(kind: str) -> list[str]:
    return ["--backend=torch", f"engine.shard={str(kind.startswith('sharded')).lower()}"]


def run_alone(folder: Path, command: list[str]) -> None:
    """In rank-0 of the folder."""
    complete(launch(folder, command, ranks=1))


def apart(one: Path, other: Path) -> float:
    first, second = (load_file(path) for path in (one, other))
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


TRAINED = {
    "sharded": ["kl=0.01", "update.minibatch=2"],
    "replicated": ["method=kl_cov", "method.ratio=0.1", "entropy=0.01"],
    "replicated adapters": ["adapter.kind=lora", "method=gspo", "update.epochs=2"],
    "sharded in 16 bits": ["engine.dtype=bfloat16", "method=kl_cov"],
}
"""Terms of the loss beside the clipped ratio."""
WEIGHTS = "checkpoints/step-000002/weights.safetensors"


@pytest.mark.thorough
def test_a_launcher_starts_what_trains_as_one(tmp_path: Path) -> None:
    """It starts Python anew."""
    command = [
        *(Path(sys.executable).with_name("torchrun"), "--nproc-per-node=2"),
        *(f"--master-port={free_port()}", "-m", "ictcli", "--"),
        *("train", "chain", "--backend=torch", "--run", "run", *SMALL, "steps=1"),
    ]
    subprocess.run(command, cwd=tmp_path, env=os.environ | QUIET, timeout=300, check=True)
    engine = json.loads((tmp_path / "run" / "environment.json").read_text())["engine"]
    assert (engine["engine"], engine["processes"]) == ("torch", 2)


@pytest.mark.parametrize("kind", first(KINDS))
def test_two_processes_train_as_one(tmp_path: Path, kind: str) -> None:
    """And a run of two that is broken off goes on to the same bits; with another number of
    processes, to rounding."""
    command = ["train", "chain", "--run", "run", *SMALL, *settings(kind), *TRAINED[kind]]
    run_alone(tmp_path / "alone", command)
    complete(launch(tmp_path, command))
    alone, run = tmp_path / "alone" / "rank-0" / "run", tmp_path / "rank-0" / "run"
    close = 1e-2 if kind == "sharded in 16 bits" else 1e-5
    for name in (WEIGHTS, *(str(file.relative_to(run)) for file in run.glob("model/model.s*"))):
        assert apart(alone / name, run / name) < close
    each = [[line.model_dump(exclude_none=True) for line in Run(x).metrics()] for x in (alone, run)]
    for one, other in zip(*each, strict=True):
        assert other == pytest.approx(one, rel=100 * close, abs=close / 5)
    began = load_file(run / "checkpoints/step-000001/weights.safetensors")
    assert any((began[n] != value).any() for n, value in load_file(run / WEIGHTS).items())
    assert not list((tmp_path / "rank-1").iterdir())
    asked = ["eval", str(run), "--checkpoint=1", "--bench=chain", "--limit=2", "--n=1"]
    for other in (["inspect", str(run), "--plain"], [*asked, f"--out={tmp_path}/evaluated"]):
        shown = CliRunner().invoke(cli, other)
        assert shown.exit_code == 0, shown.output

    last = (run / WEIGHTS).parent
    files = (*last.glob("*.safetensors"), run / "metrics.jsonl")
    kept = {file: file.read_bytes() for file in files}
    for lost in (last, run / "model", run / "adapter"):
        shutil.rmtree(lost, ignore_errors=True)
    (run / "summary.json").unlink()
    names = ("one", "three") if PROFILE == "thorough" else ("one",)
    others = [tmp_path / name / "rank-0" / "run" for name in names]
    for other in others if kind == "sharded" else ():
        shutil.copytree(run, other)
    complete(launch(tmp_path, ["resume", "run"]))
    assert [file.name for file, bits in kept.items() if file.read_bytes() != bits] == []
    if kind == "sharded":
        run_alone(others[0].parents[1], ["resume", "run"])
        for three in others[1:]:
            complete(launch(three.parents[1], ["resume", "run"], ranks=3))
        assert all(apart(alone / WEIGHTS, other / WEIGHTS) < 1e-5 for other in others)


@pytest.mark.parametrize(("kind", "lost"), [("replicated", 0), ("sharded", 1)])
def test_a_lost_process_ends_the_run(tmp_path: Path, kind: str, lost: int) -> None:
    """A lost process is a sentence, not a traceback."""
    started = begin_long_run(tmp_path, kind)
    with ending(started):
        started[lost].kill()
        ended = started[1 - lost].wait()
    assert "Another process of the launch is gone" in ended.err and "hint: " in ended.err
    assert ended.code == 1


def test_ctrl_c_finishes_the_step_and_saves_it(tmp_path: Path) -> None:
    """Of all processes, as a terminal does."""
    started = begin_long_run(tmp_path, "sharded")
    for one in started:
        one.send(signal.SIGINT)
    (code, _), (other, heard) = finish(started)
    assert (code, other, heard) == (130, 0, "")
    run = tmp_path / "rank-0" / "run"
    steps = len((run / "metrics.jsonl").read_text().splitlines())
    assert (run / f"checkpoints/step-{steps:06}").is_dir()


def begin_long_run(folder: Path, kind: str) -> list[Running]:
    """Two processes, a step into their run."""
    command = ["train", "chain", *settings(kind), "--run", "run", *SMALL, "steps=400"]
    started = launch(folder, command)
    started[0].says("step 1/")
    return started


@pytest.mark.parametrize(
    ("command", "code", "about"),
    [
        (["train", "chain", "--backend", "mlx"], 2, "needs the torch engine, not mlx"),
        (["methods"], 0, "entropy20"),
    ],
)
def test_the_others_end_where_no_engine_is_built(
    tmp_path: Path, command: list[str], code: int, about: str
) -> None:
    (first, said), (second, heard) = finish(launch(tmp_path, command))
    assert (first, second) == (code, 0), (said, heard)
    assert about in said
    assert heard == ""
