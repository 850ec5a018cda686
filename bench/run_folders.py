"""Small run folders, for commands to be tried on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from corruptions import SECRET

SMALL = (
    *("steps=6", "warmup=2", "prompts=2", "group=2", "max_tokens=40", "eval.problems=4"),
    *("eval.n=2", "eval.k=[1,2]", "checkpoint.every=2", "record.rollouts_every=2"),
)
COMPARE = (
    *("compare", "chain", *SMALL, "--methods", "ict,random", "--seeds", "1"),
    *("--baseline", "ict", "--out", "run", "--json"),
)
"""Makes the comparison of `make_folders`, and gathers it again."""
EVALUATE = (
    *("eval", "builtin:chain", "--bench", "chain", "--limit", "3", "--n", "2", "-k", "1"),
    *("max_tokens=8", "--out", "run", "--resume", "--json"),
)
"""Makes the evaluation, and reads it again."""


def make_folders(base: Path) -> None:
    """One finished run and another beside it, one stopped run, and a comparison."""

    def ictcli(*arguments: str, cwd: Path) -> None:
        cwd.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ictcli", *arguments]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)

    for name, more in (("run", ()), ("other", ("method=grpo", "seed=1"))):
        ictcli("train", "chain", *SMALL, *more, "--run", name, cwd=base / "finished")
    stopped = base / "stopped" / "run"
    shutil.copytree(base / "finished" / "run", stopped)
    for leftover in ("summary.json", "model", "checkpoints/step-000006", "eval/after.json"):
        path = stopped / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    ictcli(*COMPARE, cwd=base / "comparison")
    ictcli(*EVALUATE, cwd=base / "evaluation")
    data = base / "data" / "run" / "data.jsonl"
    data.parent.mkdir(parents=True)
    rows = ({"prompt": f"{n}+1=", "gold": f"{n + 1}", "response": f"{n}"} for n in range(30))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_outside(folder: Path) -> dict[str, str]:
    """A folder beside a run whose files no command may read or change: what it holds now."""
    outside = folder / "outside"
    if not outside.exists():
        outside.mkdir()
        for name in ("key", "config.json", "step-000004.safetensors", "state.json"):
            (outside / name).write_text(SECRET)
        os.mkfifo(outside / "step-000006.safetensors")
    files = sorted(outside.iterdir())
    return {file.name: file.read_text() if file.is_file() else "" for file in files}


def copy(source: Path, target: Path) -> None:
    """Links to what commands replace, copies of what they may change in place."""

    def link(path: str, to: str) -> None:
        if path.endswith((".safetensors", ".html")):
            os.link(path, to)
        else:
            shutil.copyfile(path, to)

    shutil.copytree(source, target, copy_function=link)
