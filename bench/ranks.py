"""Several processes on a CPU: `python bench/ranks.py NAME [FILE.json]`, by one of these names.

methods: ten steps of every method in one, two and four processes, and how far loss, gradient norm
and weights of several are from those of one; exit code 1 above 1e-5. same: trains the built-in
model with all weights in each process and with spread ones, all weights and LoRA, for ten steps in
two and in four processes, and prints how far its weights are from those of one process; resumes
each from the middle and compares bits. killed: kills one of two processes and times the end of the
other. chain: runs the recipe of that name.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from harness import record
from safetensors.torch import load_file

from ictcli.algorithm.methods import METHODS
from ictcli.runs.read import read_lines
from ictcli.runs.records import StepMetrics

SMALL = [
    *("prompts=3", "group=4", "max_tokens=24", "keep=0.3", "warmup=1", "eval.problems=4"),
    *("eval.n=2", "eval.k=[1]", "optimizer.eps=0.01", "checkpoint.every=5", "checkpoint.last=9"),
]
SHARD = {
    "replicated": "engine.shard=false",
    "sharded": "engine.shard=true",
}
LAST = "checkpoints/step-000010/weights.safetensors"


def start(folder: Path, arguments: list[str], ranks: int = 2) -> list[subprocess.Popen[str]]:
    """What torchrun starts: the command on some ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
    common = os.environ | address | {"WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "ictcli", *arguments],
            cwd=folder,
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]


def run(folder: Path, arguments: list[str], ranks: int = 2) -> str:
    """What rank 0 says."""
    started = start(folder, arguments, ranks)
    ended = [process.communicate()[0] for process in started]
    if failed := [x for one, x in zip(started, ended, strict=True) if one.returncode]:
        sys.exit("\n".join(failed))
    return ended[0]


def alone(folder: Path, arguments: list[str]) -> None:
    folder.mkdir(parents=True)
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "ictcli"]
    done = subprocess.run([*program, *arguments], cwd=folder, env=env, stdout=subprocess.DEVNULL)
    assert done.returncode == 0


def apart(one: Path, other: Path) -> float:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def compare(folder: Path, kind: str) -> None:
    command = ["train", "chain", "--run", "run", "steps=10", f"adapter.kind={kind}"]
    alone(folder / kind, [*command, *SMALL, "--backend", "torch"])
    for name, ranks in product(SHARD, (2, 4)):
        place = folder / f"{kind}-{name}-{ranks}"
        run(place, [*command, *SMALL, SHARD[name]], ranks)
        gap = apart(folder / kind / "run" / LAST, place / "run" / LAST)
        last = (place / "run" / LAST).parent
        files = (*last.glob("*.safetensors"), place / "run" / "metrics.jsonl")
        kept = {file: file.read_bytes() for file in files}
        for lost in ("checkpoints/step-000010", "model", "adapter"):
            shutil.rmtree(place / "run" / lost, ignore_errors=True)
        (place / "run" / "summary.json").unlink()
        run(place, ["resume", "run"], ranks)
        same = all(file.read_bytes() == bits for file, bits in kept.items())
        print(f"{kind:5} {name:10} {ranks} weights {gap:.1e} from one, resumed to the bit: {same}")


CLOSE = 1e-5


def methods(folder: Path) -> dict[str, Any]:
    """In one launch of each size. Two updates a step, so that ratios leave 1, at a rate that moves
    weights by far more than CLOSE."""
    found = dict[str, dict[str, float]]()
    for method in METHODS:
        command = ["train", "chain", "--run", "run", "steps=10", *SMALL, "update.epochs=2"]
        command += ["lr=3e-3", "eval.problems=1", "eval.n=1", "record.rollouts_every=1"]
        command += [f"method={method}"]
        place = folder / method
        alone(place / "1", [*command, "--backend", "torch"])
        for ranks in (2, 4):
            run(place / str(ranks), command, ranks)
            gaps = far(place / "1" / "run", place / str(ranks) / "run")
            found[f"{method} {ranks}"] = gaps
            print(method, ranks, *(f"{n} {gap:.1e}" for n, gap in gaps.items()), flush=True)
    return {"gaps": found}


def far(one: Path, other: Path) -> dict[str, float]:
    """The largest differences of two runs of ten steps, in how many they sampled or kept other
    tokens, and how far the last five moved the weights."""
    steps = [read_lines(run / "metrics.jsonl", StepMetrics) for run in (one, other)]

    def gap(name: str) -> float:
        pairs = zip(*([getattr(step, name) or 0.0 for step in run] for run in steps), strict=True)
        return max(abs(a - b) for a, b in pairs)

    places = [sorted((run / "rollouts").iterdir()) for run in (one, other)]
    batches = [map(load_file, files) for files in zip(*places, strict=True)]
    differ = [any(not a[n].equal(b[n]) for n in ("tokens", "kept")) for a, b in batches]
    return {
        "loss": gap("loss"),
        "grad_norm": gap("grad_norm"),
        "weights": apart(one / LAST, other / LAST),
        "differ": sum(differ),
        "moved": apart(one / LAST.replace("10", "05"), one / LAST),
    }


def kill(folder: Path, lost: int) -> None:
    command = ["train", "chain", SHARD["sharded"], "--run", "run", "steps=400", *SMALL]
    started = start(folder / f"kill-{lost}", command)
    first = started[0].stdout
    assert first is not None
    for line in first:
        if line.startswith("step 3/"):
            break
    began = time.monotonic()
    started[lost].kill()
    said, _ = started[1 - lost].communicate()
    line = next((line for line in said.splitlines() if line.startswith("error")), "no sentence")
    print(f"rank {lost} killed: the other ended in {time.monotonic() - began:.1f} s: {line[:90]}")


def whole(folder: Path) -> None:
    command = ["train", "chain", "--run", "run"]
    run(folder / "chain", command)
    summary = json.loads((folder / "chain" / "run" / "summary.json").read_text())
    for name in ("before", "after"):
        for k, found in summary[name].items():
            low, high = found["low"], found["high"]
            print(f"chain {name:6} {k} {found['value']:.3f} [{low:.3f}, {high:.3f}]")


def same(folder: Path) -> None:
    for trained in ("none", "lora"):
        compare(folder, trained)


def killed(folder: Path) -> None:
    for rank in (0, 1):
        kill(folder, rank)


if __name__ == "__main__":
    name, *file = sys.argv[1:]
    works: dict[str, Callable[[Path], Any]] = {"same": same, "killed": killed}
    works |= {"chain": whole, "methods": methods}
    with tempfile.TemporaryDirectory() as made:
        found = works[name](Path(made).resolve())
    if file:
        record(Path(*file), ("torch",), **found)
    gaps = found["gaps"] if name == "methods" else {}
    if late := [n for n, gap in gaps.items() if not max([*gap.values()][:3]) <= CLOSE]:
        sys.exit(f"farther than {CLOSE}: {', '.join(late)}")
