"""Number formats of a model on this CPU: seconds, memory, and what each gets wrong.

    python bench/dtypes.py MODEL [--tokens 24] [--json FILE]

LoRA of rank 16 on a model's folder. Its adapters have taken a few steps, and each format restores
the same ones. Sampling and one update of all tokens, with a KL penalty, take turns on one thread:
medians of CPU seconds, of which only the ratios mean anything. Peak memory stands beside the plan
(`bench/memory.py`). The gradient, log pi and `kl` of one batch are held against the same engine in
float64, whose norms transformers computes in float32.
"""

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import STATISTICS, in_fresh_process, medians, record
from ictcli_torch.engine import TorchEngine
from memory import make_recipe, measure, show

from ictcli.algorithm.objective import Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine.shape import read_shape
from ictcli.engine.update import Update
from ictcli.planning.estimate import estimate_memory
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import FloatArray, Rollouts, Sampling

DTYPES = ("float32", "bfloat16")
LORA = NewAdapters(kind="lora", rank=16, alpha=32)
TEXT = Path(__file__).parents[1] / "docs"
STEPS, LR = 3, 1e-4
"""Updates that the adapters have taken before anything is measured."""
KL = 0.05


def load(folder: str, dtype: Any, kernels: Any = "auto") -> TorchEngine:
    settings = EngineSettings(
        backend="torch", device="cpu", dtype=dtype, kernels=kernels, threads=1
    )
    engine = TorchEngine(folder, settings, OptimizerSettings(), LORA)
    engine.keep_reference()
    return engine


def prompts_of(engine: TorchEngine, prompts: int, length: int) -> list[list[int]]:
    """The docs' text, cut into prompts."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(TEXT.glob("*.md")))
    ids = engine.tokenizer(pages[: 20 * prompts * length])["input_ids"]
    return [ids[i * length : (i + 1) * length] for i in range(prompts)]


def batch(rollouts: Rollouts) -> Update:
    """An update of all tokens, half of whose rows are rewarded."""
    weights = normalise(rollouts.valid, rollouts.valid, "sequence", rollouts.tokens.shape[1])
    advantage = np.where(np.arange(len(rollouts)) % 2, 1.0, -1.0)
    return Update(rollouts, weights, advantage, Objective(kl=KL))


def figures(engine: TorchEngine, update: Update) -> tuple[dict[str, FloatArray], FloatArray, float]:
    """Gradient by name, log pi (B, T) and mean KL."""
    report = engine.gradient(update)
    assert engine.optimizer is not None
    masters = engine.optimizer.masters.items()
    found = {name: master.grad.double().numpy() for name, master in masters}  # type: ignore[union-attr]
    engine.optimizer.drop_gradient()
    return found, report.logp, report.summed_kl / report.evaluated


def errors(engine: TorchEngine, exact: Any, update: Update) -> dict[str, float]:
    gradient, logp, kl = figures(engine, update)
    true, true_logp, true_kl = exact
    apart = {name: np.linalg.norm(gradient[name] - value) for name, value in true.items()}
    sizes = {name: np.linalg.norm(value) for name, value in true.items()}
    each = np.array([apart[name] / sizes[name] for name in true])
    whole = np.linalg.norm([*apart.values()]) / np.linalg.norm([*sizes.values()])
    gap = np.abs(logp - true_logp)[update.rollouts.valid]
    return {
        "gradient": float(whole),
        "gradient, mean tensor": float(each.mean()),
        "gradient, worst tensor": float(each.max()),
        "log pi, mean": float(gap.mean()),
        "log pi, worst": float(gap.max()),
        "kl": kl,
        "kl in float64": true_kl,
    }


def alone(engine: TorchEngine, prompts: list[list[int]], group: int, sampling: Sampling) -> float:
    """Share of a first prompt's rows whose tokens are the same without the other prompts."""
    beside, own = (engine.generate(x, group, sampling, 7) for x in (prompts, prompts[:1]))
    return float((beside.tokens[:group] == own.tokens).all(axis=1).mean())


def compare(a: argparse.Namespace, adapters: Path) -> dict[str, Any]:
    engines = {dtype: load(a.model, dtype) for dtype in DTYPES}
    first, sampling = engines["float32"], Sampling(a.tokens)
    prompts = prompts_of(first, a.prompts, a.prompt)
    for seed in range(STEPS):
        first.update(batch(first.generate(prompts, a.group, sampling, seed)), LR)
    first.save(adapters)
    engines["bfloat16"].restore(adapters)
    update = batch(first.generate(prompts, a.group, sampling, STEPS))
    exact = load(a.model, "float32", "plain")
    exact.restore(adapters)
    exact.model.double()
    truth = figures(exact, update)
    del exact
    found: dict[str, Any] = {}
    for dtype, engine in engines.items():
        found[dtype] = errors(engine, truth, update)
        found[dtype]["rows alike without other prompts"] = alone(engine, prompts, a.group, sampling)

    def sample(engine: TorchEngine) -> object:
        return engine.generate(prompts, a.group, sampling, 1, STATISTICS)

    works: dict[str, Any] = {f"{d}, sampling": partial(sample, e) for d, e in engines.items()}
    works |= {f"{d}, update": partial(e.update, update, 0.0) for d, e in engines.items()}
    for name, seconds in medians(works, a.rounds).items():
        dtype, phase = name.split(", ")
        found[dtype][f"{phase}, CPU s"] = seconds
    return found


def peaks(a: argparse.Namespace, dtype: str) -> dict[str, Any]:
    """Planned and measured bytes of each phase, in a process of its own."""
    sizes = {"prompts": a.prompts, "group": a.group, "max_tokens": a.tokens, "keep": 1.0, "kl": KL}
    settings = {"adapter": {"kind": "lora", "rank": LORA.rank}, "dtype": dtype, **sizes}
    recipe = make_recipe(Path(a.model), "torch", settings)
    planned = estimate_memory(recipe, read_shape(a.model), a.prompt)
    measured = in_fresh_process(measure, recipe, a.prompt)
    show(dtype, planned, measured)
    return {phase: [planned.peak(phase), took] for phase, took in measured.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="the folder of a model")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=100, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of a response")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"  # for the fresh processes
    with tempfile.TemporaryDirectory() as folder:
        found = in_fresh_process(compare, a, Path(folder))
    for name in found["float32"]:
        print(f"{name:34s} " + " ".join(f"{dtype} {found[dtype][name]:<10.4g}" for dtype in DTYPES))
    memory = {dtype: peaks(a, dtype) for dtype in DTYPES}
    if a.json:
        record(a.json, ["torch", "transformers"], dtypes=found, memory=memory)


if __name__ == "__main__":
    main()
