"""Launches of TRL's engine: what is planned for one, what is refused, and two processes as one."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ictcli.cli import cli
from ictcli.engine import find_launcher
from ictcli.engine.shape import ModelShape
from ictcli.errors import UserError
from ictcli.planning.estimate import estimate_memory
from ictcli.recipe.load import check
from ictcli.runs.rollouts import read_rollouts

from .test_trl import CLOSE, apart

pytest.importorskip("trl")

QWEN = ModelShape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32768, tied=True)
"""Qwen2.5-0.5B."""


def test_the_plan_of_a_process_is_that_of_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards divide what is held; copies of the gradients for messages add to it."""

    def parts(**env: str) -> dict[str, float]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        chosen = {"backend": "trl", "device": "cuda"}
        table = {"model": "builtin:chain", "task": "chain", "steps": 1, "method": "grpo"}
        recipe = check(table | {"kl": 0.1, "engine": chosen}, "test")
        phases = estimate_memory(recipe, QWEN).phases
        return phases["updating"] | {"sampling": phases["sampling"]["gathered weights"]}

    alone = parts()
    ddp = parts(WORLD_SIZE="8", RANK="0", MASTER_ADDR="here")
    fsdp = parts(ACCELERATE_USE_FSDP="true")
    assert alone["weights"] == ddp["weights"] == 4 * QWEN.parameters
    assert ddp["gradients"] == alone["gradients"] + 4 * QWEN.parameters
    for name in ("weights", "reference policy", "AdamW's moments"):
        assert fsdp[name] == alone[name] / 8
    assert fsdp["sampling"] == alone["sampling"] == 2 * QWEN.parameters


@pytest.mark.parametrize(("memory", "kind"), [(("--memory", "80"), "MULTI_GPU"), ((), "FSDP")])
def test_accelerate_reads_the_configuration_that_a_plan_writes(
    tmp_path: Path, memory: tuple[str, ...], kind: str
) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    file = tmp_path / "accelerate.yaml"
    asked = ["train", "chain", "--backend", "trl", "--dry-run", "--gpus", "8", *memory]
    planned = CliRunner().invoke(cli, [*asked, "--json", "--write-accelerate", str(file)])
    assert planned.exit_code == 0, planned.output
    read: Any = load_config_from_file(str(file))
    assert (read.distributed_type.value, read.num_processes) == (kind, 8)
    assert read.mixed_precision == "no"
    if kind == "FSDP":
        assert read.fsdp_config["fsdp_version"] == 2
    plan = json.loads(planned.stdout)
    assert plan["chosen"] == ("FSDP2" if kind == "FSDP" else "DDP")
    peaks = {name: max(one["peak_bytes"].values()) for name, one in plan["plans"].items()}
    assert peaks["FSDP2"] == peaks["ZeRO-3"]
    other = CliRunner().invoke(cli, [*asked, "--backend", "torch"])
    assert isinstance(other.exception, UserError)
    assert other.exception.hint == "--backend trl"


def test_a_launch_that_starts_one_process_of_several_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """accelerate launch --cpu --num_processes 2 sets these, and no rank."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert find_launcher() is None
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(UserError, match="was told of several processes") as refused:
        find_launcher().run(pytest.fail)
    assert "torchrun --nproc-per-node" in refused.value.hint


COMMAND = [
    *("train", "chain", "steps=2", "prompts=3", "group=4", "max_tokens=24", "keep=0.3"),
    *("warmup=1", "kl=0.01", "eval.problems=4", "eval.n=2", "eval.k=[1]", "optimizer.eps=0.01"),
    *("record.rollouts_every=1", "engine.threads=1", "checkpoint.every=1", "--run", "run"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


def launch(folder: Path, rank: int, port: int, command: list[str]) -> subprocess.Popen[str]:
    """What torchrun starts, sharding by FSDP2."""
    place = folder / f"rank-{rank}"
    place.mkdir(parents=True, exist_ok=True)
    env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    env |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "ACCELERATE_USE_CPU": "true"}
    env |= {"FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}  # as accelerate launch sets it
    return subprocess.Popen(
        [sys.executable, "-m", "ictcli", *command],
        cwd=place,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process of the torch engine."""
    run = tmp_path_factory.mktemp("alone") / "run"
    done = CliRunner().invoke(cli, [*COMMAND[:-1], str(run), "--backend", "torch"])
    assert done.exit_code == 0, done.output
    return run


@pytest.mark.parametrize("sampler", ["own", "transformers"])
def test_two_processes_that_share_the_weights_train_as_one(
    tmp_path: Path, alone: Path, sampler: str
) -> None:
    run_two(tmp_path, [*COMMAND, f"engine.sampler={sampler}"])
    run, name = tmp_path / "rank-0" / "run", "checkpoints/step-000002/weights.safetensors"
    assert apart(alone / name, run / name) < CLOSE
    for expected in recorded_steps(alone):
        (one, _), (other, _) = (
            read_rollouts(folder / "rollouts" / expected.name) for folder in (alone, run)
        )
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_allclose(other[key], one[key], atol=CLOSE, err_msg=key)
        for key in ("tokens", "kept"):
            np.testing.assert_array_equal(one[key], other[key])
    engine = json.loads((run / "environment.json").read_text())["engine"]
    assert engine["parallelism"] == "fsdp2"
    assert engine["accelerate_config"]["num_processes"] == 2
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    gaps = [step.get("sampler_gap") for step in steps]
    assert gaps == [None, None] if sampler == "own" else all(0 <= gap < CLOSE for gap in gaps)
    for command in (
        ["runs", "show", str(run), "--json"],
        ["inspect", str(run), "--plain"],
        [
            "eval",
            str(run),
            "--checkpoint=2",
            "--bench=chain",
            "--limit=2",
            "--n=1",
            f"--out={tmp_path}/e",
        ],
    ):
        shown = CliRunner().invoke(cli, command)
        assert shown.exit_code == 0, shown.output

    if sampler == "own":
        return
    last, kept = run / "checkpoints/step-000002", {}
    for file in (*last.glob("*-of-2.safetensors"), run / "metrics.jsonl"):
        kept[file] = file.read_bytes()
    assert len(kept) == 5
    for lost in (last, run / "model"):
        shutil.rmtree(lost)
    (run / "summary.json").unlink()
    run_two(tmp_path, ["resume", "run"])
    assert all(file.read_bytes() == before for file, before in kept.items())


def run_two(folder: Path, command: list[str]) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    started = [launch(folder, rank, port, command) for rank in (0, 1)]
    try:
        said = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    assert said[1] == ""
    assert not list((folder / "rank-1").iterdir())


def recorded_steps(run: Path) -> list[Path]:
    found = sorted((run / "rollouts").iterdir())
    assert len(found) == 2
    return found
