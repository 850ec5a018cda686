"""A comparison that nobody ran: random figures, hostile labels, every part filled."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from ictcli.algorithm.attribution import KINDS
from ictcli.compare import claims, judging, statistics
from ictcli.compare.comparison import CURVES, Claim, Comparison, JudgedDifference
from ictcli.compare.efficiency import AREA, AT_BUDGET, CORRECT, TO_THRESHOLD, Efficiency
from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.gradients import Attribution, GradientShare
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.shared_rollouts import ForkComparison
from ictcli.compare.variants import Variant, variants_of
from ictcli.evaluation.passk import Interval
from ictcli.runs.records import Summary

HOSTILE = "</script><img src=x onerror=alert(1)>"
SWEPT = f"ict note={HOSTILE}$x_1$|`&amp;`"
LABELS = ("ict", SWEPT, "grpo", "entropy20", "stapo", "random")
RIVALS = LABELS[2:]
METRICS, STEPS, SEEDS = ("pass@1", "pass@4"), 60, 5
EVERY = (statistics.BEFORE, *LABELS)
Keys = Mapping[str, tuple[Sequence[str], ...]]
KEYS: Keys = {
    "estimates": (METRICS, EVERY),
    "differences": (METRICS, [label for label in LABELS if label != "grpo"]),
    "differences_greedy": (["greedy"], ["ict"]),
    **{f"differences_from_{rival}": (METRICS, ["ict"]) for rival in ("stopped", "method")},
    "passk": (EVERY, [str(k) for k in range(1, 9)]),
    "curves": ([*CURVES], LABELS),
    "probe": (["ict", "grpo"],),
}
"""Of the mappings in a field, from the outermost in; of others LABELS."""
UNITS = ("rollouts", "CPU seconds", "dense steps of Qwen2.5-0.5B")
OF_EFFICIENCY: Keys = {
    "units": (UNITS,),
    "figures": ([TO_THRESHOLD, AREA, AT_BUDGET],),
    "differences": (["ict"],),
    "curves": ([CORRECT], LABELS),
    "spent": (UNITS,),
}
FIXED = {"level": 0.05, "tests": 6, "seeds": SEEDS, "p_swap_least": 0.0625}
RNG = np.random.default_rng(0)


def filled(kind: Any, keys: Keys = KEYS, /, **given: Any) -> dict[str, Any]:
    """The JSON of a record with random values in all fields that are not given."""
    hints = get_type_hints(kind)
    given = {name: value for name, value in FIXED.items() if name in hints} | given
    fields = [name for name in hints if name not in given and not name.startswith("model_")]
    fields = [name for name in fields if name != "spent" or name in keys]
    made = {name: value_of(hints[name], name, keys, keys.get(name, (LABELS,))) for name in fields}
    for names in (("low", "value", "high"), ("low", "mean", "high")):
        if set(names) <= made.keys():
            ordered = np.sort([made[name] for name in names], axis=0).tolist()
            made |= dict(zip(names, ordered, strict=True))
    return made | given


def value_of(kind: Any, field: str, keys: Keys, own: tuple[Sequence[str], ...]) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        return value_of(parts[0], field, keys, own)
    if origin and issubclass(origin, Mapping):
        return {key: value_of(parts[1], field, keys, own[1:]) for key in own[0]}
    if origin and field == "step":
        return [*range(1, STEPS + 1)]
    if origin:
        return [value_of(parts[0], field, keys, own) for _ in range(STEPS)]
    draws = {
        float: lambda: float(RNG.random()),
        int: lambda: int(RNG.integers(2, 99)),
        bool: lambda: False,
        str: lambda: "seeds and problems",
    }
    return draws[kind]() if kind in draws else filled(kind, keys)


def made_claim(rival: str, metric: str, place: int) -> dict[str, Any]:
    family = "main" if rival in ("grpo", "random") else "second"
    test = filled(JudgedDifference, rival=rival, family=family, unit="points", metric="", gain=None)
    return {
        "name": f"ict is better than {rival} on chain at this size: {metric}",
        "verdict": ("supported", "undecided", "contradicted")[place % 3],
        "sentence": "It says so.",
        "numbers": test,
    }


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
        "chosen": "lr=2e-4",
        "runs": SEEDS,
        "failed": int(label == "stapo"),
    }


def result() -> dict[str, Any]:
    drawn = ("estimates", "differences", "passk", "curves", "probe", "places", "training", "cost")
    drawn += ("uniqueness", "differences_from_stopped", "differences_from_method")
    hints = get_type_hints(Comparison)
    shares = [
        filled(GradientShare, kind=kind, raised=raised, regime=regime)
        for kind in KINDS
        for raised in (True, False)
        for regime in (None, "before")
    ]
    pairs = [(rival, metric) for rival in RIVALS for metric in METRICS]
    return {
        name: value_of(hints[name], name, KEYS, KEYS.get(name, (LABELS,))) for name in drawn
    } | {
        "format": 4,
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
        "ks": [1, 4],
        "tuned_key": "lr",
        "baseline": "grpo",
        "variants": [made_variant(label) for label in LABELS],
        "claims": [made_claim(*pair, place) for place, pair in enumerate(pairs)],
        "overlap": {"labels": [*LABELS], "jaccard": RNG.random((6, 6)).tolist()},
        "forks": [filled(ForkComparison, method=label) for label in LABELS],
        "attribution": {label: filled(Attribution, shares=shares) for label in LABELS},
        "efficiency": filled(Efficiency, OF_EFFICIENCY, model="Qwen2.5-0.5B"),
        "paper": {
            "note": "Qwen2.5 0.5B, P@1 / P@4 in %; 5 seeds, no variance given.",
            "rows": [
                {"method": "grpo", "MATH-500": "11.70/23.20", "GSM8K": "42.87/63.15"},
                {"method": "ict", "MATH-500": "12.15/24.80", "GSM8K": "40.27/65.40"},
            ],
        },
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


def variant(label: str) -> Variant:
    return variants_of([label], [])[0]


def runs_by_variant(done: Sequence[FinishedRun]) -> list[VariantRuns]:
    """A variant for each of the runs."""
    return [VariantRuns(run.spec.variant, [run]) for run in done]


def by_name(made: Sequence[Claim]) -> dict[str, Claim]:
    found = {claim.name: claim for claim in made}
    assert len(found) == len(made)
    json.dumps([asdict(claim) for claim in made], allow_nan=False)
    return found


def accuracy_claims(
    scores: statistics.Scores,
    shares: Mapping[str, tuple[float, float | None]] = {},
    crashed: Mapping[str, Sequence[int]] = {},
) -> dict[str, Claim]:
    """The claims on chain by name. `shares`: of tokens trained, in all and after the warm-up."""
    labels = [label for label in next(iter(scores.values())) if label != statistics.BEFORE]
    trained = {
        variant(label): TrainedTokens(
            tokens_kept_share=whole, share_kept=chosen, dense_steps=int(whole != chosen)
        )
        for label, (whole, chosen) in shares.items()
    }
    tests = claims.accuracy_tests(scores, "chain", [*map(variant, labels)], trained, crashed)
    return by_name(judging.judged(tests))
