"""Parts of `bench/gpu.py` that run ictcli as a user does: training, branches, laws, kills."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_work import Report
from qwen import make_qwen

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "smollm2-135m-invoices.toml"
LITTLE = ("steps=2", "sft.steps=1", "prompts=2", "group=4", "eval.problems=4", "eval.n=2")
"""Of a training with --tiny."""
QUESTIONS = ROOT / "recipes" / "data" / "invoices-test.jsonl"
"""Where no data is named."""


def run(*command: str, **options: Any) -> str:
    """The stdout of a program of this Python, which has to succeed."""
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        **options,
    )
    if ended.returncode:
        print(ended.stdout)
        raise RuntimeError(f"exit {ended.returncode}: {ended.stdout[-300:]}")
    return ended.stdout


@contextmanager
def model_of(a: Namespace) -> Generator[str]:
    """The folder of the model, or with --tiny a random one's where none is named."""
    if a.model:
        yield str(Path(a.model).resolve())
        return
    if not a.tiny:
        raise ValueError("--model names no folder of SmolLM2-135M-Instruct")
    with tempfile.TemporaryDirectory() as folder:
        yield str(make_qwen(Path(folder)))


def training(a: Namespace, report: Report, method: str) -> None:
    """A run of the invoice recipe: pass@1 before and after, and what it took."""
    with model_of(a) as model, tempfile.TemporaryDirectory() as place:
        options = [f"model={model}", f"method={method}", f"engine.device={a.device}", "steps=40"]
        options += LITTLE if a.tiny else ()
        began = time.perf_counter()
        run(
            "-m",
            "ictcli",
            "train",
            str(RECIPE),
            *options,
            "--backend",
            "torch",
            "--run",
            place + "/run",
        )
        took = time.perf_counter() - began
        folder = Path(place, "run")
        summary = json.loads((folder / "summary.json").read_text())
        lines = (folder / "timings.jsonl").read_text().splitlines()
    timings = [json.loads(line) for line in lines]
    report(
        "training",
        method=method,
        **{f"pass@1 {when}": interval(summary[when]["pass@1"]) for when in ("before", "after")},
        change=interval(summary["change"]["pass@1"]),
        **{"minutes in all": took / 60},
        **{
            f"{what} s": statistics.median(t[f"{what}_s"] for t in timings)
            for what in ("sample", "update")
        },
        **{"peak GiB": max(timing["peak_bytes"] for timing in timings) / 2**30},
    )


def interval(estimate: dict[str, float]) -> str:
    value, low, high = (100 * estimate[key] for key in ("value", "low", "high"))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"


def branches(a: Namespace, report: Report) -> None:
    """Where the tokens of methods lie in groups that the model samples."""
    prompts, group, tokens = (2, 4, 16) if a.tiny else (128, 8, 256)
    options = [f"prompts={prompts}", f"group={group}", f"max_tokens={tokens}"]
    options += [
        "engine.backend=torch",
        f"engine.device={a.device}",
        f"engine.rows={prompts * group}",
    ]
    options += [f"task={Path(a.data).resolve() if a.data else QUESTIONS}"]
    with model_of(a) as model:
        began = time.perf_counter()
        said = run("-m", "ictcli", "inspect", model, *options, "--branches", "--json")
        took = time.perf_counter() - began
    found = json.loads(said)
    whole = {
        name: found[name] for name in ("responses", "tokens", "alone_from", "branch_share", "sure")
    }
    report("responses", **whole, seconds=took)
    for placed in found["placements"]:
        means = {k: v["value"] if isinstance(v, dict) else v for k, v in placed.items()}
        names = (
            "method",
            "keep",
            "kept",
            "branch_recall",
            "later_recall",
            "kept_prob",
            "kept_sure",
        )
        report("branches", **{name: means[name] for name in names})


def laws(a: Namespace, report: Report) -> None:
    """The contract's laws on the GPU; on a CPU some of those of decoding, as a try."""
    which = ["-m", "gpu", "tests/contract"]
    if a.device == "cpu":
        which = ["tests/contract/test_decoding.py"]
    said = run("-m", "pytest", "-n0", "-rfE", "--tb=short", *which)
    report("laws", pytest=said.strip().splitlines()[-1])


def kills(a: Namespace, report: Report) -> None:
    """A run that is killed and resumed must end with the bytes of one that was not."""
    options = ["--kills", "3", "--seed", "1", f"engine.device={a.device}", "steps=30"]
    for line in run(str(ROOT / "bench" / "kills.py"), *options).splitlines():
        report("kills", line=line)
