"""A comparison that nobody ran: realistic figures, hostile labels, every part filled."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from made_efficiency import made_efficiency

from ictcli.algorithm.attribution import KINDS
from ictcli.compare import claims, entropy_claims, gradients, judging, statistics
from ictcli.compare.comparison import CURVES, Claim
from ictcli.compare.correction import differences
from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import over_seeds
from ictcli.compare.variants import Variant, variants_of
from ictcli.evaluation.passk import Interval
from ictcli.runs.records import Summary
from ictcli.tables.table import Span

HOSTILE = "</script><img src=x onerror=alert(1)>"
SWEPT = f"ict note={HOSTILE}$x_1$|`&amp;`"
METHODS = {
    "ict": "ict",
    SWEPT: "ict",
    "grpo": "grpo",
    "entropy20": "entropy20",
    "stapo": "stapo",
    "random": "random",
}
SAMPLES, STEPS, BINS = 8, 60, 20
PROBED = {"pearson": 0.95, "pearson_low": 0.9, "pearson_high": 0.98}
PROBED |= {"error": 0.015, "error_low": 0.001, "error_high": 0.03}


def _fork(recall: float) -> dict[str, Any]:
    return {"share": 0.1, "recall": recall, "precision": 0.21, "kept": 1702, "hits": 311}


def _attribution(shares: Any) -> gradients.Attribution:
    """From (runs, 4, 2) shares."""
    kinds = [(at, kind, sign) for at, kind in enumerate(KINDS) for sign in (0, 1)]
    return gradients.Attribution(
        runs=len(shares),
        steps=2,
        shares=[
            gradients.GradientShare(kind, sign == 0, regime, over_seeds(shares[:, at, sign]))
            for at, kind, sign in kinds
            for regime in (None, "before")
        ],
        towards_right=over_seeds(shares[:, 0, 0] - shares[:, 0, 1]),
        uniqueness=gradients.LostUniqueness(*(Span(value, None, None) for value in (3, 5, 2))),
    )


def result(seeds: int = 5, N: int = 128) -> dict[str, Any]:
    """The JSON of comparison.json of six variants."""
    rng = np.random.default_rng(0)
    labels = list(METHODS)
    reach = dict(zip(labels, (0.44, 0.47, 0.4, 0.31, 0.41, 0.43), strict=True))
    hard = rng.normal(0, 1.6, N)
    luck = rng.normal(0, 0.12, (len(labels) + 1, seeds, 1))

    def counts(level: float, run: int) -> Any:
        logit = np.log(level / (1 - level)) * 1.6 + hard + luck[run]
        return rng.binomial(SAMPLES, 1 / (1 + np.exp(-logit)))

    correct = {statistics.BEFORE: counts(0.2, 0)}
    correct |= {label: counts(reach[label], run) for run, label in enumerate(labels, 1)}
    ks = [1, 4]
    scores = statistics.scores_of(correct, SAMPLES, ks)
    every = statistics.scores_of(correct, SAMPLES, range(1, SAMPLES + 1))
    x = np.linspace(0, 1, STEPS)
    noisy = {
        (name, v): np.exp(-(1.9 if v == "grpo" else 0.7) * x)
        * (1 + 0.05 * rng.normal(size=(seeds, STEPS)))
        for name in CURVES
        for v in labels
    }
    curves = {
        name: {
            v: {
                "step": list(range(1, STEPS + 1)),
                "mean": noisy[name, v].mean(0).tolist(),
                "low": noisy[name, v].min(0).tolist(),
                "high": noisy[name, v].max(0).tolist(),
            }
            for v in labels
        }
        for name in CURVES
    }
    probed = list(range(10, STEPS + 1, 10))
    grid = np.linspace(0, 1, 101)
    variants = [
        Variant(label, method, ("method.note=1",) * (label == SWEPT))
        for label, method in METHODS.items()
    ]
    tokens = TrainedTokens(tokens_kept_share=0.1, share_kept=0.1)
    trained = {each: tokens for each in variants if each.label in ("ict", "random")}
    judged = [
        *judging.judged(claims.accuracy_tests(scores, "chain", variants, trained)),
        *entropy_claims.entropy_claims({v: list(noisy["entropy", v.label]) for v in variants}),
    ]
    return {
        "format": 4,
        "command": f"ictcli compare chain-compare --seeds {seeds} --sweep 'method.note={HOSTILE}'",
        "recipe": "chain-compare",
        "recipe_toml": f'task = "chain"\n# {HOSTILE}\nlr = 2e-4\n```\n',
        "overrides": [],
        "task": "chain",
        "model": "builtin:chain",
        "versions": {"ictcli": "0.1.0", "python": "3.13.5", "torch": "2.13.0"},
        "device": {"engine": "torch", "device": "cpu", "device_name": "", "parameters": 812_544},
        "seeds": list(range(seeds)),
        "steps": STEPS,
        "problems": N,
        "n": SAMPLES,
        "ks": ks,
        "tuned_key": "lr",
        "baseline": "grpo",
        "variants": [
            {
                "label": label,
                "method": method,
                "source": "arXiv 2606.19771, A.3.7",
                "summary": "The share `keep` of tokens with the highest uniqueness.",
                "overrides": [f"method.note={HOSTILE}"] if label == SWEPT else [],
                "lr": 2e-4,
                "tuned": {
                    f"lr={lr}": {"pass@1": reach[label] - off, "pass@4": reach[label] + 0.2 - off}
                    for lr, off in (("1e-4", 0.0213), ("2e-4", 0.0), ("4e-4", 0.0471))
                },
                "chosen": "lr=2e-4",
                "runs": seeds,
                "failed": int(label == "stapo"),
            }
            for label, method in METHODS.items()
        ],
        "estimates": {
            metric: {v: asdict(statistics.estimate(values)) for v, values in mine.items()}
            for metric, mine in scores.items()
        },
        "differences": {
            metric: {v: asdict(one) for v, one in mine.items()}
            for metric, mine in differences(scores, "grpo").items()
        },
        "claims": [asdict(claim) for claim in judged],
        "passk": {
            v: {m.removeprefix("pass@"): float(mine[v].mean()) for m, mine in every.items()}
            for v in correct
        },
        "curves": curves,
        "probe": {
            v: {
                "step": probed,
                "runs": seeds,
                **{
                    name: (level + 0.01 * rng.random(len(probed))).tolist()
                    for name, level in PROBED.items()
                },
            }
            for v in ("ict", "grpo")
        },
        "places": {
            v: {
                "tokens": 2083 if METHODS[v] == "ict" else 20790,
                "position": rng.dirichlet(np.full(BINS, 60)).tolist(),
                "entropy": rng.dirichlet(np.linspace(1, 90, BINS)).tolist(),
                "regime_high": 0.41,
                "regime_low": 0.57,
                "sure": 0.813,
                "sure_all": 0.764,
            }
            for v in labels
        },
        "training": {
            v: {
                "tokens_kept_share": 0.1,
                "high_low_ratio": 1.21 if v == "ict" else None,
                "high_low_per_seed": [1.1, 1.3] if v == "ict" else [None, None],
            }
            for v in labels
        },
        "overlap": {
            "labels": labels,
            "jaccard": [[1.0 if a == b else 0.137 for b in labels] for a in labels],
        },
        "forks": [
            {
                "method": v,
                "own": _fork(0.15 + 0.1 * at),
                "random_at_own": _fork(0.1),
                "tokens": 17023,
                "forks": 2074,
                "problems": 64,
            }
            for at, v in enumerate(labels)
        ],
        "uniqueness": {
            "share": grid.tolist(),
            "value": np.maximum(0.49 * np.exp(-9 * grid) - 0.01, 0).tolist(),
            "zero": 0.31,
        },
        "attribution": {
            v: asdict(_attribution(rng.dirichlet(np.ones(8), seeds).reshape(-1, 4, 2)))
            for v in labels
        },
        **{
            f"differences_from_{rival}": {
                metric: {
                    "ict": asdict(statistics.evidence(mine["ict"], mine["random"]).difference())
                }
                for metric, mine in scores.items()
            }
            for rival in ("stopped", "method")
        },
        "cost": {
            v: {
                "seconds_per_step": 1.27 + 0.1 * at,
                "sample_s": 0.81 + 0.1 * at,
                "update_s": 0.39,
                "peak_bytes": 1_234_567_890 + at,
            }
            for at, v in enumerate(labels)
        },
        "efficiency": made_efficiency(labels, seeds, curves["share_kept"], rng),
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
    """The summary of a run of three steps, whose evaluations found half of all correct."""
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
