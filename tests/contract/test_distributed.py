"""Laws of several processes on one run: rank 0 alone writes, and nothing else changes."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from .conftest import require

SMALL = [
    *("steps=4", "prompts=3", "group=4", "max_tokens=24", "warmup=1", "keep=0.3"),
    *("eval.problems=4", "eval.n=2", "eval.k=[1]", "record.rollouts_every=0"),
    *("checkpoint.every=2", "checkpoint.last=9", "optimizer.eps=0.01"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


@pytest.fixture(autouse=True)
def _mlx() -> None:
    require("mlx")


def ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def launch(
    folder: Path, command: list[str], ranks: int = 2, program: tuple[str, ...] = ("-m", "ictcli")
) -> list[subprocess.Popen[str]]:
    """What mlx.launch does with the ring backend: the command on each rank, all in one list."""
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports(ranks)]))
    started: list[subprocess.Popen[str]] = []
    for rank in range(ranks):
        place = folder / f"rank-{rank}"
        place.mkdir(exist_ok=True)
        env = os.environ | {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)}
        started.append(
            subprocess.Popen(
                [sys.executable, *program, *command],
                cwd=place,
                env=env | {"OMP_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return started


def finish(started: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    try:
        said = [one.communicate(timeout=180)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    return [(one.returncode, text) for one, text in zip(started, said, strict=True)]


def run_alone(folder: Path, command: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "ictcli", *command],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def apart(one: Path, other: Path) -> float:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """And a run of two that is broken off goes on to the same bits."""
    command = ["train", "chain", "--backend", "mlx", "--run", "run", "adapter.kind=lora"]
    run_alone(tmp_path / "alone", [*command, *SMALL])
    for code, said in finish(launch(tmp_path, [*command, *SMALL])):
        assert code == 0, said
    run, name = tmp_path / "rank-0" / "run", "checkpoints/step-000004/weights.safetensors"
    assert apart(tmp_path / "alone" / "run" / name, run / name) < 1e-5
    begun = load_file(run / "checkpoints/step-000002/weights.safetensors")
    assert any((begun[key] != value).any() for key, value in load_file(run / name).items())
    assert not list((tmp_path / "rank-1").iterdir())
    assert json.loads((run / "environment.json").read_text())["engine"]["processes"] == 2

    kept = {path: (run / path).read_bytes() for path in (name, "metrics.jsonl", "eval/after.json")}
    for gone in ("checkpoints/step-000004", "model", "adapter"):
        shutil.rmtree(run / gone, ignore_errors=True)
    (run / "summary.json").unlink()
    for code, said in finish(launch(tmp_path, ["resume", "run"])):
        assert code == 0, said
    for path in (name, "metrics.jsonl"):
        assert (run / path).read_bytes() == kept[path]


def test_a_lost_process_ends_the_run(tmp_path: Path) -> None:
    """A lost process is a sentence, not a traceback."""
    command = ["train", "chain", "--backend", "mlx", "--run", "run", *SMALL, "steps=400"]
    started = launch(tmp_path, command)
    first = started[0].stdout
    assert first is not None
    for line in first:
        if line.startswith("step 2/"):
            break
    started[1].kill()
    left = first.read()
    assert started[0].wait(60) == 1
    assert "error: Another process of the launch is gone" in left
    assert "hint: " in left
    started[1].wait(60)


@pytest.mark.parametrize(
    ("command", "code", "about"),
    [
        (["train", "chain", "--backend", "torch"], 2, "one process"),
        (["train", "chain", "--backend", "mlx", "stepz=3"], 2, "stepz"),
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


def test_the_others_end_where_rank_0_fails(tmp_path: Path) -> None:
    """In the middle of what all do at once: it leaves, and does not wait for their part."""
    command = ["train", "chain", "--backend", "mlx", "--run", "run", *SMALL]
    (first, said), (second, _) = finish(launch(tmp_path, [*command, "engine.memory_limit=0.001"]))
    assert first != 0
    assert second != 0
    assert "engine.memory_limit" in said


FULL_ON_ONE = """
import sys
from pathlib import Path

import numpy as np

from ictcli.algorithm.objective import Objective
from ictcli.engine import build_engine
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.types import Sampling
from ictcli.engine.budget import Budget
from ictcli.engine.update import Update
from ictcli_mlx import distributed, sample, update

model, folder = sys.argv[1:]


def fails_once(call, at):
    calls = []

    def counted(*arguments, **options):
        calls.append(1)
        if len(calls) == at:
            raise RuntimeError("[malloc] Unable to allocate 1 bytes.")
        return call(*arguments, **options)

    return counted


passes = Budget.micro_batches


def told(budget, rollouts, *arguments, **options):
    if len(rollouts) == 16:  # not build_engine's check
        print("tokens", budget.tokens)
    return passes(budget, rollouts, *arguments, **options)


Budget.micro_batches = told
if distributed.communicator().rank > 0:
    update.head_logits = fails_once(update.head_logits, 2)
    sample.draw = fails_once(sample.draw, 4 + 2)  # behind the 4 of build_engine's check
    distributed.work()
    sys.exit()
state, prompts, said = {}, [[5, 12, 3], [2, 13, 9], [7, 1, 2], [4, 4, 8]], []
for name in ("shrinks", "begins small"):
    engine = build_engine(
        model, EngineSettings(backend="mlx", micro_tokens=64), OptimizerSettings()
    )
    engine.budget.say = said.append
    engine.budget.restore(state)
    rollouts = engine.generate(prompts, 4, Sampling(14, stop_ids=(17,)), 7)
    weights = rollouts.valid / rollouts.valid.sum()
    engine.update(Update(rollouts, weights, np.linspace(-1, 1, 16), Objective()), 1e-3)
    state = engine.budget.state()
    place = Path(folder, name)
    place.mkdir()
    engine.save(place)
    np.save(place / "tokens.npy", rollouts.tokens)
distributed.shut_down()
print("said", len(said))
print("state", state["micro_tokens"], state["rows"])
"""


def test_all_shrink_where_one_runs_out_of_memory(tiny_model: Path, tmp_path: Path) -> None:
    """To the bits of a run that had begun so: every rank works within the same budget."""
    command = [str(tiny_model), str(tmp_path)]
    ended = finish(launch(tmp_path, command, program=("-c", FULL_ON_ONE)))
    assert [code for code, _ in ended] == [0, 0], ended
    first, second = (text.splitlines() for _, text in ended)
    least = int(next(line for line in first if line.startswith("state")).split()[1])
    assert "said 2" in first  # of sampling, of the update
    for lines in (first, second):
        tokens = [int(line.split()[1]) for line in lines if line.startswith("tokens")]
        assert tokens == [64, least, least]
    files = [path.name for path in (tmp_path / "shrinks").iterdir()]
    assert "weights.safetensors" in files
    for name in files:
        same = [(tmp_path / run / name).read_bytes() for run in ("shrinks", "begins small")]
        assert same[0] == same[1]
