"""The paper's claims of a run's course, judged seed by seed: entropy, and the theory's dH2.

Entropy neither collapses nor explodes (ours, the paper sets no bounds): the mean H1 of the last
tenth of the steps against the first step's, by the thresholds of the alarms. Supported if every
seed is within, contradicted if the 95 % interval over seeds (Student's t of the logarithms) lies
outside, else undecided; one seed decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.algorithm.alarms import entropy_alarm
from ictcli.compare.claims import (
    SUBJECT,
    Claim,
    EntropyRatio,
    PredictionQuality,
    Verdict,
    counted,
    method_of,
)
from ictcli.compare.crossed import infer
from ictcli.types import FloatArray

PEARSON_ABOVE, ERROR_BELOW = 0.95, 0.02
"""What the paper claims of predicted against measured dH2."""
LEAST_STEPS = 50
"""Of a run that its entropy is judged by; the paper's have 120 to 485."""


def entropy_claims(curves: Mapping[str, Sequence[FloatArray]]) -> list[Claim]:
    """What becomes of entropy: (steps,) curves of mean H1 by variant, one a seed. Of ict that it
    neither collapses nor explodes, of grpo that it collapses, of entropy20 that it explodes."""
    wanted: dict[str, tuple[str | None, str]] = {
        SUBJECT: (None, "entropy neither collapses nor explodes"),
        "grpo": ("collapse", "training every token collapses entropy"),
        "entropy20": ("explosion", "training high-entropy tokens alone makes entropy explode"),
    }
    found: list[Claim] = []
    for variant, seeds in curves.items():
        shapes = [_ratio(curve) for curve in seeds if _ratio(curve) is not None]
        if method_of(variant) in wanted and shapes:
            state, name = wanted[method_of(variant)]
            ratios = np.array([ratio for ratio in shapes if ratio is not None])
            found.append(_entropy_claim(f"{variant}: {name}", state, ratios, seeds))
    return found


def prediction_claims(probes: Mapping[str, Sequence[tuple[float, float]]]) -> list[Claim]:
    """Whether dH2 is predicted as the paper says: Pearson's r and the mean absolute error of each
    seed, by variant. Contradicted if the interval of either over seeds lies outside."""
    found: list[Claim] = []
    for variant, seeds in probes.items():
        pairs = np.asarray(seeds, dtype=np.float64).reshape(-1, 2)
        (r, r_low, r_high), (error, low, high) = (_over_seeds(column) for column in pairs.T)
        known = np.isfinite(r_low), np.isfinite(low)
        r_low, r_high, low = max(-1.0, r_low), min(1.0, r_high), max(0.0, low)
        told = (
            f" ({r_low:.3f} to {r_high:.3f})" if known[0] else "",
            f" ({low:.2g} to {high:.2g})" if known[1] else "",
        )
        verdict: Verdict = "undecided"
        if len(pairs) > 1 and (r_high <= PEARSON_ABOVE or low >= ERROR_BELOW):
            verdict = "contradicted"
        elif len(pairs) > 1 and (pairs[:, 0] > PEARSON_ABOVE).all():
            verdict = "supported" if (pairs[:, 1] < ERROR_BELOW).all() else "undecided"
        found.append(
            Claim(
                f"{variant}: the first-order prediction of dH2 holds",
                verdict,
                f"Predicted and measured dH2 correlate at r = {r:.3f}{told[0]} over "
                f"{counted(len(pairs), 'seed')}, with a mean absolute error of "
                f"{error:.2g}{told[1]}; the paper claims r > {PEARSON_ABOVE} and an error under "
                f"{ERROR_BELOW}.",
                PredictionQuality(
                    (r, r_low, r_high) if known[0] else (r, None, None),
                    (error, low, high) if known[1] else (error, None, None),
                    len(pairs),
                ),
            )
        )
    return found


def _ratio(curve: FloatArray) -> float | None:
    """Mean H1 of the last tenth of the steps against the first; None without a first to speak of.
    Steps that are NaN are left out."""
    values = np.asarray(curve, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < 2 or values[0] <= 0:
        return None
    return float(values[-max(1, len(values) // 10) :].mean() / values[0])


def _entropy_claim(
    name: str, wanted: str | None, ratios: FloatArray, curves: Sequence[FloatArray]
) -> Claim:
    value, low, high = np.exp(_over_seeds(np.log(np.maximum(ratios, 1e-12)))).tolist()
    states = [entropy_alarm(1.0, ratio) for ratio in ratios]
    at_low, at_high = entropy_alarm(1.0, low), entropy_alarm(1.0, high)
    outside = {
        None: at_low == "explosion" or at_high == "collapse",
        "collapse": at_low != "collapse",
        "explosion": at_high != "explosion",
    }[wanted]
    verdict: Verdict = "undecided"
    short = max((len(curve) for curve in curves), default=0) < LEAST_STEPS
    if short:
        pass  # entropy has had no time to go anywhere
    elif len(ratios) > 1 and all(state == wanted for state in states):
        verdict = "supported"
    elif len(ratios) > 1 and outside:
        verdict = "contradicted"
    alarmed = sum(
        any(entropy_alarm(float(c[0]), float(h)) for h in c) for c in curves if len(c) and c[0] > 0
    )
    ended = ", ".join(
        f"{states.count(state)} {word}"
        for state, word in (("collapse", "collapsed"), ("explosion", "exploded"), (None, "within"))
        if state in states
    )
    known = bool(np.isfinite(high))
    bounds = f" (95 % interval {low:.2f} to {high:.2f})" if known else ""
    only = "" if len(ratios) > 1 else ": one seed decides nothing"
    only = f": fewer than {LEAST_STEPS} steps decide nothing" if short else only
    return Claim(
        name,
        verdict,
        f"Mean H1 ends at {value:.2f} times its first value{bounds} over "
        f"{counted(len(ratios), 'seed')}, {ended} (under 0.1 is collapse, over 3 explosion); "
        f"{alarmed} crossed a bound at some step{only}.",
        EntropyRatio(
            value,
            low if known else None,
            high if known else None,
            ratios.tolist(),
            alarmed,
            len(ratios),
        ),
    )


def _over_seeds(values: FloatArray) -> tuple[float, float, float]:
    """The mean of (S,) values with Student's interval; infinite where no luck is seen, of one
    value or of equal ones."""
    found = infer(np.asarray(values, dtype=np.float64)[:, None])
    half = np.inf if found.half is None else found.half
    return found.mean, found.mean - half, found.mean + half
