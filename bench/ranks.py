"""Two processes on a CPU against one: `python bench/ranks.py [FOLDER]`.

Trains the built-in model with all weights in each process and with spread ones, all weights and
LoRA, for ten steps, and prints how far its weights are from those of one process; resumes each from
the middle and compares bits; kills one of two processes and times the end of the other; and runs
the recipe `chain` itself.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ictcli_torch.files import read_arrays

SMALL = [
    *("prompts=3", "group=4", "max_tokens=24", "keep=0.3", "warmup=1", "eval.problems=4"),
    *("eval.n=2", "eval.k=[1]", "optimizer.eps=0.01", "checkpoint.every=5", "checkpoint.last=9"),
]
SHARD = {"replicated": "engine.shard=false", "sharded": "engine.shard=true"}
LAST = "checkpoints/step-000010/weights.safetensors"


def start(folder: Path, arguments: list[str]) -> list[subprocess.Popen[str]]:
    """What torchrun starts: the command on two ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
    common = os.environ | address | {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "ictcli", *arguments],
            cwd=folder,
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]


def run(folder: Path, arguments: list[str]) -> None:
    for process in start(folder, arguments):
        said, _ = process.communicate()
        if process.returncode:
            sys.exit(said)


def alone(folder: Path, arguments: list[str]) -> None:
    folder.mkdir(parents=True)
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "ictcli"]
    done = subprocess.run([*program, *arguments], cwd=folder, env=env, stdout=subprocess.DEVNULL)
    assert done.returncode == 0


def apart(one: Path, other: Path) -> float:
    first, second = read_arrays(one), read_arrays(other)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def compare(folder: Path, kind: str) -> None:
    command = ["train", "chain", "-q", "--run", "run", "steps=10", f"adapter.kind={kind}"]
    alone(folder / kind, [*command, *SMALL, "--backend", "torch"])
    for name in ("replicated", "sharded"):
        place = folder / f"{kind}-{name}"
        run(place, [*command, *SMALL, SHARD[name]])
        gap = apart(folder / kind / "run" / LAST, place / "run" / LAST)
        last = (place / "run" / LAST).parent
        files = (*last.glob("*.safetensors"), place / "run" / "metrics.jsonl")
        kept = {file: file.read_bytes() for file in files}
        for lost in ("checkpoints/step-000010", "model", "adapter"):
            shutil.rmtree(place / "run" / lost, ignore_errors=True)
        (place / "run" / "summary.json").unlink()
        run(place, ["resume", "run", "-q"])
        same = all(file.read_bytes() == bits for file, bits in kept.items())
        print(f"{kind:5} {name:10} weights {gap:.1e} from one process, resumed to the bit: {same}")


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
    command = ["train", "chain", "-q", "--run", "run"]
    run(folder / "chain", command)
    summary = json.loads((folder / "chain" / "run" / "summary.json").read_text())
    for name in ("before", "after"):
        for k, found in summary[name].items():
            low, high = found["low"], found["high"]
            print(f"chain {name:6} {k} {found['value']:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        where = Path(sys.argv[1] if len(sys.argv) > 1 else made).resolve()
        for trained in ("none", "lora"):
            compare(where, trained)
        for rank in (0, 1):
            kill(where, rank)
        whole(where)
