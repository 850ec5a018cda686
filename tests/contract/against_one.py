"""Run by `test_ranks` on every rank of a launch: the torch engine on all of them against the same
on rank 0 alone. Rank 0 prints how far they are apart, case by case, as a line of JSON."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ictcli_torch.engine import TorchEngine
from ictcli_torch.files import read_arrays

from ictcli.algorithm.objective import Objective, Term
from ictcli.engine import build_engine, run_in_ranks
from ictcli.engine.core import OPTIMIZER, WEIGHTS
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings
from ictcli.types import Rollouts, Sampling

from .conftest import PROMPTS, WANTED
from .lowrank import DORA, LORA
from .training import LR, SMOOTH, advantages, logp_of, sparse_weights

CONTEXT = "context:2"
"""A statistic that takes a pass, and logits within it."""
HOW = Sampling(9, 0.7, stop_ids=(17, 4))
SHARED = ("signed",)
"""Cases that are tried with shared prompts too: one with most terms, since a term knows of none."""
Engines = tuple[Any, Any]


def main() -> None:
    """Its arguments are a model and settings, as JSON, pair by pair."""
    run_in_ranks(compare)


def compare() -> None:
    for model, settings in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(json.dumps(gaps(model, **json.loads(settings))))


def gaps(model: str, *, adapter: str, dtype: str = "float32", **given: Any) -> dict[str, float]:
    adapters = {"lora": LORA, "dora": DORA}.get(adapter)
    common = {"device": "cpu", "dtype": dtype, "threads": 1, "micro_tokens": 64}
    settings = EngineSettings.model_validate(common)
    launched = settings.model_copy(update={"backend": "torch", **given})
    engines: Engines = (
        TorchEngine(model, settings, SMOOTH, adapters),
        build_engine(model, launched, SMOOTH, adapters),
    )
    found = dict[str, float]()
    for engine in engines:
        engine.keep_reference()
    for name, prompts in {"": PROMPTS, "shared ": [p * 4 for p in PROMPTS]}.items():
        one, other = (engine.generate(prompts, 4, HOW, 7, WANTED) for engine in engines)
        found[f"{name}tokens"] = float((one.tokens != other.tokens).sum())
        found[f"{name}statistics"] = max(_far(one.stats[n], other.stats[n]) for n in WANTED)
        for case, (objective, more) in cases(one).items():
            if not name or case in SHARED:
                found[name + case] = step(engines, one, objective, more)
        for reference in (False, True):
            values = [logp_of(e, one, 0.7, reference=reference) for e in engines]
            found[f"{name}logprobs {reference}"] = _far(*values)
        scores = [engine.score(one, (*WANTED, CONTEXT)) for engine in engines]
        found[f"{name}scores"] = max(_far(*(s[n] for s in scores)) for n in scores[0])
        values = [engine.logits(one, one.valid) for engine in engines]
        found[f"{name}logits"] = _far(*values)
    return found | {"export": exported(engines)}


def cases(rollouts: Rollouts) -> dict[str, tuple[Objective, dict[str, Any]]]:
    """Every term of the loss."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=rollouts.logp.shape) * 0.3 * rollouts.valid
    old = {"old_logp": (rollouts.logp + noise).astype(np.float32)}
    chosen = (rng.random(noise.shape) < 0.5).astype(np.float32)
    proxy = Term(chosen, target=(rollouts.logp - np.abs(noise)).astype(np.float32))
    return {
        "plain": (Objective(temperature=0.7), {}),
        "clip": (Objective(0.1, 0.3, temperature=0.7), old),
        "total variation": (Objective(0.1, 0.3, clip_on="tv"), old),
        "sequence": (Objective(0.05, 0.05, clip_on="sequence"), old),
        "weight": (Objective(0.1, 0.3, clip_on="weight"), old),
        "kl": (Objective(kl=0.3, temperature=0.7), old),
        "entropy": (Objective(entropy=0.05), {}),
        "kl_cov": (Objective(), old | {"terms": {"kl_old": Term(0.8 * chosen)}}),
        "lp_reg": (Objective(), {"terms": {"proxy": proxy}}),
        "signed": (Objective(0.1, 0.3, kl=0.1), old | {"sign": 1 - 2 * chosen}),
    }


def step(engines: Engines, rollouts: Rollouts, objective: Objective, more: dict[str, Any]) -> float:
    """How far two updates are apart: their reports, weights and moments, which hold a tenth of the
    gradient. The launch then goes on from the checkpoint of the one process."""
    sign = more.pop("sign", np.float32(1))
    weights, A = sparse_weights(rollouts) * sign, advantages(rollouts)
    update = Update(rollouts, weights, A, objective, **more)
    one, other = (e.update(update, LR) for e in engines)
    assert one.stepped and other.stepped
    figures = ("loss", "grad_norm", "kl", "clip_fraction", "ratio_gap", "logp", "evaluated")
    far = [_far(getattr(one, name), getattr(other, name)) for name in figures]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for engine, folder in zip(engines, (first, second), strict=True):
            engine.save(Path(folder))
        far.append(_arrays_far(*(checkpoint(Path(folder)) for folder in (first, second))))
        engines[1].restore(Path(first))
    return max(far)


def checkpoint(folder: Path) -> dict[str, Any]:
    """Master weights and moments. Whole weights of 16 bits lie beside their masters."""
    weights, state = read_arrays(folder / WEIGHTS), read_arrays(folder / OPTIMIZER)
    return {name: state.pop(f"master/{name}", w) for name, w in weights.items()} | state


def exported(engines: Engines) -> float:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for engine, folder in zip(engines, (first, second), strict=True):
            engine.export(Path(folder))
        return _arrays_far(*(read_arrays(Path(x, "model.safetensors")) for x in (first, second)))


def _arrays_far(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys()
    return max(_far(one[name].float(), other[name].float()) for name in one)


def _far(one: Any, other: Any) -> float:
    """The largest difference; of large figures relative to the largest of them."""
    first, second = (np.asarray(x, dtype=float) for x in (one, other))
    return float(np.abs(first - second).max() / max(1.0, np.abs(first).max()))
