"""Laws of several processes on one run: rank 0 alone writes, and nothing else changes. Of models
that none of them holds whole."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from ictcli_torch import files
from ictcli_torch.files import on_meta, open_arrays, part, read_arrays, write_files
from processes import QUIET, Running, complete, ending, finish, free_ports, launch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from ictcli.cli import cli
from ictcli.runs import Run
from tests.cases import first
from tests.conftest import PROFILE

from .conftest import require
from .models import make_kind

CPU = torch.device("cpu")

SMALL = [
    *("steps=2", "prompts=3", "group=4", "max_tokens=16", "warmup=1", "keep=0.3"),
    *("eval.problems=3", "eval.n=1", "eval.k=[1]", "eval.temperatures=[]"),
    *("record.rollouts_every=1", "record.probe_every=1", "optimizer.eps=0.01"),
    *("checkpoint.every=1", "checkpoint.last=9"),
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
        *("kl=0.01", "update.minibatch=2", "engine.shard=blocks"),
    ],
    "adapted in parts": ["adapter.kind=lora", "method=gspo", "update.epochs=2"],
    "blocks below DoRA": ["adapter.kind=dora", "engine.shard=blocks", "method=cispo"],
    "in 16 bits": ["engine.dtype=bfloat16", "method=kl_cov"],
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


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_written_weight_by_weight_is_read_as_it_was_and_found_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tied: bool
) -> None:
    """In files that hold no more than they may, of which an index says what each holds; a model
    without numbers knows it. Buffers are in no file."""
    path = make_kind(tmp_path / "one", "qwen2", tie_word_embeddings=tied, dtype="bfloat16")
    whole = AutoModelForCausalLM.from_pretrained(path)
    weights = dict(whole.named_parameters())
    monkeypatch.setattr(files, "FILE", 20_000)
    folder = tmp_path / "other"
    whole.save_pretrained(folder, state_dict={})
    write_files(folder, weights, lambda name: weights[name].detach())
    sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    assert len(sizes) > 1 and max(sizes) < 20_000 + 2_000
    read = dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())
    found = on_meta(str(folder), AutoConfig.from_pretrained(folder), torch.bfloat16, CPU)
    assert all(weight.is_meta for weight in found.parameters())
    buffers = dict(found.named_buffers())
    assert all(torch.equal(buffers[name], value) for name, value in whole.named_buffers())
    assert read.keys() == weights.keys() == found.places.keys()
    for name, (file, stored) in found.places.items():
        assert torch.equal(read[name], weights[name])
        with safe_open(file, "pt") as opened:
            assert torch.equal(opened.get_tensor(stored), weights[name])


def test_weights_that_files_hold_in_another_shape_are_read_by_transformers(tmp_path: Path) -> None:
    """Experts, which transformers puts together."""
    more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    path = make_kind(tmp_path, "qwen3_moe", **more)
    assert on_meta(str(path), AutoConfig.from_pretrained(path), torch.float32, CPU) is None


def test_arrays_in_parts_have_their_shapes_before_they_are_read(tmp_path: Path) -> None:
    for rank, rows in enumerate((2, 1, 0)):
        arrays = {"weight": torch.full((rows, 3), rank), "step": torch.tensor(5.0)}
        save_file(arrays, part(tmp_path / "x.safetensors", rank, 3))
    found = open_arrays(tmp_path / "x.safetensors")
    assert {name: array.shape for name, array in found.items()} == {"weight": (3, 3), "step": ()}
    assert {n: x.tolist() for n, x in read_arrays(tmp_path / "x.safetensors").items()} == {
        "weight": [[0, 0, 0], [0, 0, 0], [1, 1, 1]],
        "step": 5.0,
    }
