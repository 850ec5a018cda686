"""Training whose rollouts vLLM samples, beside the engine's own: `python bench/vllm_runs.py`.

    python bench/vllm_runs.py [--python PYTHON] [--folder FOLDER] [--seeds SEEDS] [PART ...]

Makes an environment with vLLM for CPUs, or takes one, and two models that compute what
`builtin:chain` does with heads that vLLM has kernels for: 0.5 and 11 million parameters. Parts:
`ranks` (two processes beside one, all weights and LoRA: a vLLM in each, of which one is killed),
`cost` (seconds of a step and sampler_gap, large model, all weights and LoRA), `resume` (killed and
gone on with, to the same numbers?), `curve` (learning beside `own`, small model).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from vllm_processes import begin, kill_at, run, start, wait

ROOT = Path(__file__).parents[1]
COMMON = [
    *("group=8", "eval.k=[1]", "engine.device=cpu", "checkpoint.every=2", "checkpoint.last=9"),
    *("seed=0", "--backend", "torch"),
]
SMALL = [*COMMON, "method=grpo", "prompts=16", "steps=24", "lr=4e-4", "max_tokens=64"]
SMALL += ["eval.problems=32", "eval.n=4", "checkpoint.every=24"]
LARGE = [*COMMON, "prompts=4", "steps=4", "lr=1e-4", "max_tokens=48", "eval.problems=4", "eval.n=1"]
LORA = ["adapter.kind=lora", "lr=1e-3"]


def make_environment(folder: Path) -> str:
    """As docs/scale.md does it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    cpu = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    bounds = ["-c", str(ROOT / "constraints-vllm.txt")]
    pip = [python, "-m", "pip", "install", "-q", *cpu, *bounds, "-e", f"{ROOT}[torch,vllm]"]
    subprocess.run(pip, check=True)
    for_images = ["torchvision", "torchaudio", "torchcodec"]
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *for_images], check=True)
    return python


def make_model(folder: Path, size: str) -> Path:
    from wide_chain import widened  # and torch, which the Python that begins may lack

    return widened(folder, size)


def warm(model: Path, prompts: int, max_tokens: int) -> None:
    """Have vLLM in this process, which forks then share. (Its weights come with every batch.)"""
    from ictcli_torch.vllm import start as start_vllm

    from ictcli.engine import build_engine
    from ictcli.recipe.tables import EngineSettings
    from ictcli.types import Sampling

    settings = EngineSettings(backend="torch", device="cpu", sampler="vllm", threads=1)
    engine = build_engine(str(model), settings)
    engine.budget.longest = 256 + max_tokens  # of a task that makes its problems
    start_vllm(engine, [[2]] * prompts, 8, Sampling(max_tokens, sampler="vllm"))


def train(where: Path, model: Path, sampler: str, *more: str) -> dict[str, Any]:
    """What it wrote: the metrics and timings of its steps, its summary."""
    engine = ["engine.sampler=" + sampler, f"model={model}", *more]
    if (code := run(where, "train", "chain", "--run", "run", *engine)) != 0:
        sys.exit(f"{where} ended with {code}: {(where / 'said.txt').read_text()[-2000:]}")
    return read(where / "run")


def read(folder: Path) -> dict[str, Any]:
    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    summary = folder / "summary.json"
    return {
        "metrics": lines("metrics.jsonl"),
        "timings": lines("timings.jsonl"),
        "summary": json.loads(summary.read_text()) if summary.exists() else {},
    }


def rewards(found: dict[str, Any]) -> str:
    return " ".join(f"{step['reward']:.4f}" for step in found["metrics"])


def ranks(folder: Path) -> None:
    """What two processes draw and learn beside one."""
    model = make_model(folder.parent / "large", "large")
    options = [*LARGE, "engine.sampler=vllm", f"model={model}", "record.rollouts_every=1"]
    command = ["train", "chain", "--run", "run", *options]
    for name, more, way in (("full", [], []), ("lora", [*LORA, "steps=2"], ["engine.shard=true"])):
        train(folder / f"{name}-one", model, "vllm", *options, *more)
        codes = wait(begin(folder / f"{name}-two", *command, *more, *way))
        beside(name, codes, folder / f"{name}-one", folder / f"{name}-two")
    place = folder / "lost"
    pids = begin(place, *command)
    kill_at(place / "0" / "run" / "checkpoints" / "step-000002", pids[1])
    print(f"rank 1 killed: exit of rank 0 {wait(pids[:1])}", flush=True)
    codes = wait(begin(place, "resume", "run"))
    beside("resumed, to both left alone", codes, folder / "full-two" / "0", place)


def beside(name: str, codes: list[int], one: Path, two: Path) -> None:
    """Print how far a run of two processes is from another, of one."""
    from safetensors.torch import load_file

    def differ(part: str) -> dict[str, Any]:
        first, second = (load_file(run / part) for run in (one / "run", two / "0" / "run"))
        return {key: (value, second[key]) for key, value in first.items()}

    if codes != [0, 0]:
        sys.exit(f"{two} ended with {codes}: {(two / '0' / 'said.txt').read_text()[-2000:]}")
    files = sorted((one / "run" / "rollouts").glob("*.safetensors"))
    drawn = [differ(f"rollouts/{file.name}")["tokens"] for file in files]
    same = sum(a.shape == b.shape and bool((a == b).all()) for a, b in drawn)
    last = sorted((one / "run" / "checkpoints").iterdir())[-1].name
    pairs = differ(f"checkpoints/{last}/weights.safetensors").values()
    apart = max(float((a - b).abs().max()) for a, b in pairs)
    found = read(two / "0" / "run")
    gap = max(step["sampler_gap"] for step in found["metrics"])
    seconds = median(timing["sample_s"] for timing in found["timings"][1:])
    print(
        f"{name}: {same} of {len(files)} steps have the same tokens, last weights {apart:.1e} "
        f"apart; sampler_gap {gap:.1e}; seconds to sample {seconds:.1f}",
        flush=True,
    )


def curve(folder: Path, seeds: int = 3) -> None:
    model = make_model(folder / "small", "small")
    warm(model, 16, 64)
    for seed in range(seeds):
        for sampler in ("own", "vllm"):
            found = train(folder / f"{sampler}-{seed}", model, sampler, *SMALL, f"seed={seed}")
            steps, summary = found["metrics"], found["summary"]
            learnt = [mean(m["reward"] for m in steps[n : n + 6]) for n in range(0, 24, 6)]
            after, gap = summary["after"]["pass@1"], max(m.get("sampler_gap") or 0 for m in steps)
            print(
                f"seed {seed} {sampler:4} rewards {' '.join(f'{r:.3f}' for r in learnt)}, pass@1 "
                f"{summary['before']['pass@1']['value']:.3f} to {after['value']:.3f} "
                f"[{after['low']:.3f}, {after['high']:.3f}], sampler_gap {gap:.1e}",
                flush=True,
            )


def cost(folder: Path) -> None:
    model = make_model(folder.parent / "large", "large")
    warm(model, 4, 48)
    for name, more in (("full", []), ("lora", LORA)):
        for sampler in ("own", "vllm"):
            found = train(folder / f"{name}-{sampler}", model, sampler, *LARGE, *more)
            timings = found["timings"][1:]  # vLLM is loaded in the first
            gap = max(m.get("sampler_gap") or 0 for m in found["metrics"])
            wall = [median(t[key] for t in timings) for key in ("sample_s", "update_s")]
            print(
                f"{name} {sampler:4} seconds a step: sampling {wall[0]:.1f}, update "
                f"{wall[1]:.1f}; sampler_gap {gap:.1e}; rewards "
                f"{rewards(found)}",
                flush=True,
            )


def resume(folder: Path) -> None:
    """A run, and one that is killed with SIGKILL after its second step and resumed."""
    model = make_model(folder.parent / "large", "large")
    warm(model, 4, 48)
    train(folder / "whole", model, "vllm", *LARGE)
    place, options = folder / "killed", [*LARGE, "engine.sampler=vllm", f"model={model}"]
    pid = start(place, "train", "chain", "--run", "run", *options)
    kill_at(place / "run" / "checkpoints" / "step-000002", pid)
    code = run(place, "resume", "run")
    one, other = (read(folder / name / "run")["metrics"] for name in ("whole", "killed"))
    same = [a == b for a, b in zip(one, other, strict=True)]
    last = "run/checkpoints/step-000004/weights.safetensors"
    bits = (folder / "whole" / last).read_bytes() == (place / last).read_bytes()
    print(
        f"killed at step 2, resume exit {code}: {sum(same)} of {len(same)} steps have the numbers "
        f"of the whole run, and the last weights its bits: {bits}",
        flush=True,
    )


PARTS = {"ranks": ranks, "cost": cost, "resume": resume, "curve": curve}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--python", help="of an environment that has vLLM")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/ictcli-vllm"))
    parser.add_argument("--seeds", type=int, default=3, help="of `curve`")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    python = options.python or make_environment(folder / "env")
    if Path(sys.executable) != Path(python):
        os.environ |= {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        arguments = ["--python", python, "--folder", str(folder), *sys.argv[1:]]
        os.execv(python, [python, __file__, *arguments])
    import peft  # noqa: F401  # what forks need, read once
    import vllm  # noqa: F401  # pyright: ignore[reportMissingImports]

    PARTS["curve"] = partial(curve, seeds=options.seeds)
    for name in sorted(options.parts or PARTS, key=[*PARTS].index):  # a launch forks before vLLM
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        print(f"{name}:", flush=True)
        PARTS[name](place)


if __name__ == "__main__":
    main()
