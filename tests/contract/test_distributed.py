"""Laws of several processes on one run: rank 0 alone writes, and nothing else changes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from ictcli_torch.files import read_arrays

from ictcli.cli import cli

from .conftest import require

SMALL = [
    *("steps=4", "prompts=3", "group=4", "max_tokens=24", "warmup=1", "keep=0.3"),
    *("eval.problems=4", "eval.n=2", "eval.k=[1]", "record.rollouts_every=2"),
    *("checkpoint.every=2", "checkpoint.last=9", "optimizer.eps=0.01"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


KINDS = ("mlx", "torch", "sharded")
"""The MLX engine, and the torch engine with all weights in each process or with parts."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    require("mlx" if request.param == "mlx" else "torch")
    return request.param


def settings(kind: str) -> list[str]:
    return ["--backend", "mlx"] if kind == "mlx" else [f"engine.shard={kind == 'sharded'}".lower()]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def environments(kind: str, folder: Path, ranks: int) -> list[dict[str, str]]:
    """What a launcher sets for each rank: mlx.launch with its ring, or torchrun."""
    ports = free_ports(ranks)
    if kind == "mlx":
        hosts = folder / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
        return [{"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)} for rank in range(ranks)]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "WORLD_SIZE": str(ranks)}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def launch(
    kind: str,
    folder: Path,
    command: list[str],
    ranks: int = 2,
    program: tuple[str, ...] = ("-m", "ictcli"),
) -> list[subprocess.Popen[str]]:
    """The command on each rank of this machine, each in a folder of its own."""
    started: list[subprocess.Popen[str]] = []
    for rank, env in enumerate(environments(kind, folder, ranks)):
        place = folder / f"rank-{rank}"
        place.mkdir(exist_ok=True)
        started.append(
            subprocess.Popen(
                [sys.executable, *program, *command],
                cwd=place,
                env=os.environ | env | {"OMP_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return started


def finish(started: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    try:
        said = [one.communicate(timeout=300)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    return [(one.returncode, text) for one, text in zip(started, said, strict=True)]


def complete(started: list[subprocess.Popen[str]]) -> None:
    """All ranks end well, and but for the first they say nothing."""
    (first, said), *others = finish(started)
    assert first == 0, (said, others)
    assert all(end == (0, "") for end in others), others


def run_alone(folder: Path, command: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "ictcli", *command],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def apart(one: Path, other: Path) -> float:
    first, second = (read_arrays(path) for path in (one, other))
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


TRAINED = {
    "mlx": ["adapter.kind=lora"],
    "torch": ["method=kl_cov", "method.ratio=0.1", "entropy=0.01"],
    "sharded": ["method=lp_reg", "kl=0.01", "update.minibatch=2"],
}
"""Terms of the loss beside the clipped ratio."""
WEIGHTS = "checkpoints/step-000004/weights.safetensors"


def test_two_processes_train_as_one(tmp_path: Path, kind: str) -> None:
    """And a run of two that is broken off goes on to the same bits; from parts of the weights with
    any number of processes, to rounding."""
    command = ["train", "chain", "--run", "run", *SMALL, *TRAINED[kind]]
    run_alone(tmp_path / "alone", [*command, *settings(kind)])
    complete(launch(kind, tmp_path, [*command, *settings(kind)]))
    alone, run = tmp_path / "alone" / "run", tmp_path / "rank-0" / "run"
    assert apart(alone / WEIGHTS, run / WEIGHTS) < 1e-5
    began = read_arrays(run / "checkpoints/step-000002/weights.safetensors")
    assert any((began[n] != value).any() for n, value in read_arrays(run / WEIGHTS).items())
    assert not list((tmp_path / "rank-1").iterdir())
    engine = json.loads((run / "environment.json").read_text())["engine"]
    assert engine["processes"] == 2
    asked = ["eval", str(run), "--checkpoint=2", "--bench=chain", "--limit=2", "--n=1"]
    for other in (["inspect", str(run), "--plain"], [*asked, f"--out={tmp_path}/evaluated"]):
        shown = CliRunner().invoke(cli, other)
        assert shown.exit_code == 0, shown.output

    last = (run / WEIGHTS).parent
    files = (*last.glob("*.safetensors"), run / "metrics.jsonl")
    kept = {file: file.read_bytes() for file in files}
    assert len(list(last.glob("*-of-2.safetensors"))) == (4 if kind == "sharded" else 0)
    for lost in (last, run / "model", run / "adapter"):
        shutil.rmtree(lost, ignore_errors=True)
    (run / "summary.json").unlink()
    others = [tmp_path / name / "rank-0" / "run" for name in ("one", "three")]
    for other in others if kind == "sharded" else ():
        shutil.copytree(run, other)
    complete(launch(kind, tmp_path, ["resume", "run"]))
    assert [file.name for file, bits in kept.items() if file.read_bytes() != bits] == []
    if kind == "sharded":
        run_alone(others[0].parent, ["resume", "run"])
        complete(launch("torch", tmp_path / "three", ["resume", "run"], ranks=3))
        assert len(list((others[1] / WEIGHTS).parent.glob("*-of-3.safetensors"))) == 4 + 2
        assert all(apart(alone / WEIGHTS, other / WEIGHTS) < 1e-5 for other in others)


@pytest.mark.parametrize(
    ("kind", "lost"), [("mlx", 1), ("torch", 0), ("sharded", 1)], indirect=["kind"]
)
def test_a_lost_process_ends_the_run(tmp_path: Path, kind: str, lost: int) -> None:
    """A lost process is a sentence, not a traceback."""
    started = begin_long_run(tmp_path, kind)
    left = started[1 - lost].stdout
    assert left is not None
    started[lost].kill()
    said = left.read()
    assert started[1 - lost].wait(60) == 1
    assert "error: Another process of the launch is gone" in said
    assert "hint: " in said
    started[lost].wait(60)


def test_ctrl_c_finishes_the_step_and_saves_it(tmp_path: Path) -> None:
    """Of all processes, as a terminal does."""
    started = begin_long_run(tmp_path, "sharded")
    for one in started:
        one.send_signal(signal.SIGINT)
    (code, _), (other, heard) = finish(started)
    assert (code, other, heard) == (130, 0, "")
    run = tmp_path / "rank-0" / "run"
    steps = len((run / "metrics.jsonl").read_text().splitlines())
    assert (run / f"checkpoints/step-{steps:06}").is_dir()


def begin_long_run(folder: Path, kind: str) -> list[subprocess.Popen[str]]:
    """Two processes, two steps into their run."""
    command = ["train", "chain", *settings(kind), "--run", "run", *SMALL, "steps=400"]
    started = launch(kind, folder, command)
    first = started[0].stdout
    assert first is not None
    for line in first:
        if line.startswith("step 2/"):
            break
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


FULL_ON_ONE = """
import sys
from pathlib import Path

import numpy as np

from ictcli.algorithm.objective import Objective
from ictcli.engine import build_engine, run_in_ranks
from ictcli.engine.budget import Budget
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.types import Sampling

backend, model, folder = sys.argv[1:]
if backend == "mlx":
    from ictcli_mlx import ranks, sample
else:
    from ictcli_torch import ranks, sample
passes, draw, drawn, failed = Budget.micro_batches, sample.draw, [], []
full = {"mlx": RuntimeError("[malloc] Unable to allocate 1 bytes."), "torch": MemoryError()}


def passes_once(budget, rollouts, *arguments, **options):
    of_update = len(rollouts) == 16  # not build_engine's check
    if of_update:
        print("tokens", budget.tokens)
    for number, batch in enumerate(passes(budget, rollouts, *arguments, **options)):
        if of_update and number == 1 and ranks.communicator().rank > 0 and not failed:
            failed.append(number)
            raise full[backend]
        yield batch


def draws_once(*arguments, **options):
    drawn.append(1)
    if len(drawn) == 4 + 2 and ranks.communicator().rank > 0:  # after the 4 of the check
        raise full[backend]
    return draw(*arguments, **options)


def main():
    state, prompts, said = {}, [[5, 12, 3], [2, 13, 9], [7, 1, 2], [4, 4, 8]], []
    for name in ("shrinks", "begins small"):
        engine = build_engine(
            model, EngineSettings(backend=backend, micro_tokens=64), OptimizerSettings()
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
    print("said", len(said))
    print("state", state["micro_tokens"], state["rows"])


Budget.micro_batches, sample.draw = passes_once, draws_once
run_in_ranks(main)
"""


@pytest.mark.parametrize("kind", ["mlx", "torch"], indirect=True)
def test_all_shrink_where_one_runs_out_of_memory(
    tiny_model: Path, tmp_path: Path, kind: str
) -> None:
    """To the bits of a run that had begun so: every rank works within the same budget."""
    command = [kind, str(tiny_model), str(tmp_path)]
    ended = finish(launch(kind, tmp_path, command, program=("-c", FULL_ON_ONE)))
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
