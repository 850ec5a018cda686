"""A comparison that nobody ran: random figures, hostile labels, every part filled."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from ictcli.compare import statistics
from ictcli.compare.comparison import CURVES, Comparison
from ictcli.evaluation.passk import Interval
from ictcli.runs.records import Summary

HOSTILE = "</script><img src=x onerror=alert(1)>"
SWEPT = f"ict note={HOSTILE}$x_1$|`&amp;`"
LABELS = ("ict", SWEPT, "grpo", "entropy20", "stapo", "random")
METRICS, STEPS, SEEDS = ("pass@1", "pass@4"), 60, 5
EVERY = (statistics.BEFORE, *LABELS)
PAIRS = [(label, "grpo") for label in LABELS if label != "grpo"]
KEYS: Mapping[str, tuple[Sequence[str], ...]] = {
    "estimates": (METRICS, EVERY),
    "differences": (METRICS, [":".join(pair) for pair in PAIRS]),
    "curves": ([*CURVES], LABELS),
}
"""Of the mappings in a field, from the outermost in; of others LABELS."""
FIXED = {"seeds": SEEDS}
RNG = np.random.default_rng(0)


def filled(kind: Any, /, **given: Any) -> dict[str, Any]:
    """The JSON of a record with random values in all fields that are not given."""
    hints = get_type_hints(kind)
    given = {name: value for name, value in FIXED.items() if name in hints} | given
    names = [name for name in hints if name not in given and not name.startswith("model_")]
    made = {name: value_of(hints[name], name, KEYS.get(name, (LABELS,))) for name in names}
    for names in (["low", "value", "high"], ["low", "mean", "high"]):
        if set(names) <= made.keys():
            ordered = np.sort([made[name] for name in names], axis=0).tolist()
            made |= dict(zip(names, ordered, strict=True))
    return made | given


def value_of(kind: Any, field: str, keys: tuple[Sequence[str], ...]) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        return value_of(parts[0], field, keys)
    if origin and issubclass(origin, Mapping):
        return {key: value_of(parts[1], field, keys[1:]) for key in keys[0]}
    if origin and field == "step":
        return [*range(1, STEPS + 1)]
    if origin:
        return [value_of(parts[0], field, keys) for _ in range(STEPS)]
    draws = {
        float: lambda: float(RNG.random()),
        int: lambda: int(RNG.integers(2, 99)),
        bool: lambda: False,
        str: lambda: "seeds and problems",
    }
    return draws[kind]() if kind in draws else filled(kind)


def made_variant(label: str) -> dict[str, Any]:
    tuned = {f"lr={lr}": {"pass@1": 0.41, "pass@4": 0.62} for lr in ("1e-4", "2e-4", "4e-4")}
    return {
        "label": label,
        "method": label.split()[0],
        "source": "arXiv 2606.19771, A.3.7",
        "summary": "The share `keep` of tokens with the highest uniqueness.",
        "overrides": [f"method.note={HOSTILE}"] if label == SWEPT else [],
        "lr": 2e-4,
        "tuned": tuned,
        "tuned_runs": 3,
        "chosen": "lr=2e-4",
        "runs": SEEDS,
        "failed": int(label == "stapo"),
    }


def result() -> dict[str, Any]:
    drawn = ("estimates", "differences", "curves", "training", "cost")
    hints = get_type_hints(Comparison)
    return {name: value_of(hints[name], name, KEYS.get(name, (LABELS,))) for name in drawn} | {
        "format": 5,
        "command": f"ictcli compare chain-compare --sweep 'method.note={HOSTILE}'",
        "recipe": "chain-compare",
        "recipe_toml": f'task = "chain"\n# {HOSTILE}\nlr = 2e-4\n```\n',
        "overrides": [],
        "task": "chain",
        "model": "builtin:chain",
        "versions": {"ictcli": "0.1.0", "python": "3.13.5", "torch": "2.13.0"},
        "device": {"engine": "torch", "device": "cpu", "device_name": "", "parameters": 812_544},
        "seeds": list(range(SEEDS)),
        "steps": STEPS,
        "problems": 128,
        "n": 8,
        "tuned_key": "lr",
        "baseline": "grpo",
        "contrasts": [{"variant": label, "rival": rival} for label, rival in PAIRS],
        "variants": [made_variant(label) for label in LABELS],
        "failed": [f"run 9/31: stapo, seed 2: {HOSTILE}\u202e is not finite"],
    }


def summary(**fields: Any) -> Summary:
    half = {"pass@1": Interval(0.5, 0.4, 0.6), "pass@4": Interval(0.5, 0.4, 0.6)}
    known: dict[str, Any] = {
        "task": "chain",
        "steps": 3,
        "before": half,
        "after": half,
        "problems": 2,
        "samples_per_problem": 4,
        "wall_s": 1.0,
        "train_s": 1.0,
        "tokens_sampled": 9,
        "tokens_kept_share": 0.1,
        "kept_tokens": {"share_kept": 0.1},
        "peak_bytes": 1,
    }
    return Summary(**{**known, **fields})
