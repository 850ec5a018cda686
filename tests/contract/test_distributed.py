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
from ictcli_torch.files import read_arrays
from processes import QUIET, Running, complete, ending, finish, free_ports, launch

from ictcli.cli import cli
from ictcli.runs import Run
from tests.cases import first
from tests.conftest import PROFILE

from .conftest import require

SMALL = [
    *("steps=2", "prompts=3", "group=4", "max_tokens=16", "warmup=1", "keep=0.3"),
    *("eval.problems=3", "eval.n=1", "eval.k=[1]", "record.rollouts_every=1"),
    *("checkpoint.every=1", "checkpoint.last=9", "optimizer.eps=0.01", "record.probe_every=1"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


KINDS = ("mlx", "torch", "adapted in parts", "blocks below DoRA", "in 16 bits")
"""The MLX engine; the torch engine with all weights in each process, or with parts of them."""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    require("mlx" if request.param == "mlx" else "torch")
    return request.param


def settings(kind: str) -> list[str]:
    shard = str(kind not in ("mlx", "torch")).lower()
    return ["--backend", "mlx"] if kind == "mlx" else [f"engine.shard={shard}"]


def run_alone(folder: Path, command: list[str]) -> None:
    """In rank-0 of the folder."""
    complete(launch("torch", folder, command, ranks=1))


def apart(one: Path, other: Path) -> float:
    first, second = (read_arrays(path) for path in (one, other))
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


TRAINED = {
    "mlx": ["adapter.kind=lora"],
    "torch": ["method=kl_cov", "method.ratio=0.1", "entropy=0.01"],
    "sharded": [
        "method.reference=context:2",
        "kl=0.01",
        "update.minibatch=2",
        "engine.shard=blocks",
    ],
    "adapted in parts": ["adapter.kind=lora", "method=gspo", "update.epochs=2"],
    "blocks below DoRA": ["adapter.kind=dora", "engine.shard=blocks", "method=cispo"],
    "in 16 bits": ["engine.dtype=bfloat16", "method=lp_reg"],
}
"""Terms of the loss beside the clipped ratio; weights that are never whole."""
WEIGHTS = "checkpoints/step-000002/weights.safetensors"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["torch", "mlx"], indirect=True)
def test_a_launcher_starts_what_trains_as_one(tmp_path: Path, kind: str) -> None:
    """It starts Python anew."""
    port = free_ports(1)[0]
    launcher, *options = {
        "mlx": ("mlx.launch", "-n2", f"--starting-port={port}", "--", sys.executable),
        "torch": ("torchrun", "--nproc-per-node=2", f"--master-port={port}"),
    }[kind]
    options += ["-m", "ictcli", *["--"] * (kind == "torch"), "train", "chain", "--run", "run"]
    command = [Path(sys.executable).with_name(launcher), *options, *SMALL, "steps=1"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | QUIET, timeout=300, check=True)
    engine = json.loads((tmp_path / "run" / "environment.json").read_text())["engine"]
    assert (engine["engine"], engine["processes"]) == (kind, 2)


@pytest.mark.parametrize("kind", first(["sharded", *KINDS]), indirect=True)
def test_two_processes_train_as_one(tmp_path: Path, kind: str) -> None:
    """And a run of two that is broken off goes on to the same bits; from parts of the weights with
    any number of processes, to rounding."""
    command = ["train", "chain", "--run", "run", *SMALL, *settings(kind), *TRAINED[kind]]
    run_alone(tmp_path / "alone", command)
    complete(launch(kind, tmp_path, command))
    alone, run = tmp_path / "alone" / "rank-0" / "run", tmp_path / "rank-0" / "run"
    close = 1e-2 if kind == "in 16 bits" else 1e-5
    for name in (WEIGHTS, *(str(file.relative_to(run)) for file in run.glob("model/model.s*"))):
        assert apart(alone / name, run / name) < close
    each = [[line.model_dump(exclude_none=True) for line in Run(x).metrics()] for x in (alone, run)]
    for one, other in zip(*each, strict=True):
        assert other == pytest.approx(one, rel=100 * close, abs=close / 10)
    began = read_arrays(run / "checkpoints/step-000001/weights.safetensors")
    assert any((began[n] != value).any() for n, value in read_arrays(run / WEIGHTS).items())
    assert not list((tmp_path / "rank-1").iterdir())
    asked = ["eval", str(run), "--checkpoint=1", "--bench=chain", "--limit=2", "--n=1"]
    for other in (["inspect", str(run), "--plain"], [*asked, f"--out={tmp_path}/evaluated"]):
        shown = CliRunner().invoke(cli, other)
        assert shown.exit_code == 0, shown.output

    last = (run / WEIGHTS).parent
    files = (*last.glob("*.safetensors"), run / "metrics.jsonl")
    kept = {file: file.read_bytes() for file in files}
    spread = kind in ("sharded", "in 16 bits")  # below adapters the model alone is
    assert len(list(last.glob("*-of-2.safetensors"))) == 4 * spread
    for lost in (last, run / "model", run / "adapter"):
        shutil.rmtree(lost, ignore_errors=True)
    (run / "summary.json").unlink()
    names = ("one", "three") if PROFILE == "thorough" else ("one",)
    others = [tmp_path / name / "rank-0" / "run" for name in names]
    for other in others if kind == "sharded" else ():
        shutil.copytree(run, other)
    complete(launch(kind, tmp_path, ["resume", "run"]))
    assert [file.name for file, bits in kept.items() if file.read_bytes() != bits] == []
    if kind == "sharded":
        run_alone(others[0].parents[1], ["resume", "run"])
        for three in others[1:]:
            complete(launch("torch", tmp_path / "three", ["resume", "run"], ranks=3))
            assert len(list((three / WEIGHTS).parent.glob("*-of-3.safetensors"))) == 4 + 2
        assert all(apart(alone / WEIGHTS, other / WEIGHTS) < 1e-5 for other in others)


@pytest.mark.parametrize(
    ("kind", "lost"), first([("mlx", 1), ("torch", 0), ("sharded", 1)], 2), indirect=["kind"]
)
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
    started = launch(kind, folder, command)
    started[0].says("step 1/")
    return started


@pytest.mark.parametrize(
    ("kind", "command", "code", "about"),
    [
        ("torch", ["train", "chain", "--backend", "mlx"], 2, "starts no processes of the mlx"),
        ("mlx", ["methods"], 0, "entropy20"),
    ],
    indirect=["kind"],
)
def test_the_others_end_where_no_engine_is_built(
    tmp_path: Path, kind: str, command: list[str], code: int, about: str
) -> None:
    (first, said), (second, heard) = finish(launch(kind, tmp_path, command))
    assert (first, second) == (code, 0), (said, heard)
    assert about in said
    assert heard == ""


def test_the_others_end_where_rank_0_fails(tmp_path: Path) -> None:
    """In the middle of what all do at once: it leaves, and does not wait for their part."""
    require("mlx")
    command = ["train", "chain", "--backend", "mlx", "--run", "run", *SMALL]
    ended = finish(launch("mlx", tmp_path, [*command, "engine.memory_limit=0.001"]))
    (first, said), (second, _) = ended
    assert first != 0
    assert second != 0
    assert "engine.memory_limit" in said
