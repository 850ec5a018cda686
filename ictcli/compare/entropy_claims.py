"""The paper's claims of how training goes, judged seed by seed: entropy, and the predicted dH2.

Entropy neither collapses nor explodes (ours, the paper sets no bounds): the mean H1 of the last
tenth of the steps against the first step's, by the thresholds of the alarms. Supported if every
seed is within, contradicted if the 95 % interval over seeds (Student's t of the logarithms) lies
outside, else undecided; one seed decides nothing.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare.claims import (
    SUBJECT,
    Claim,
    EntropyRatio,
    PredictionQuality,
    Verdict,
)
from ictcli.compare.crossed import infer
from ictcli.compare.numbers import counted
from ictcli.compare.variants import Variant
from ictcli.train.health import entropy_alarm
from ictcli.types import FloatArray

PEARSON_ABOVE, ERROR_BELOW = 0.95, 0.02
"""What the paper claims of predicted against measured dH2."""
LEAST_STEPS = 50
"""Shorter runs decide nothing about entropy; the paper's have 120 to 485 steps."""
ENTROPY_CLAIMS: dict[str, tuple[str | None, str]] = {
    SUBJECT: (None, "entropy neither collapses nor explodes"),
    "grpo": ("collapse", "training every token collapses entropy"),
    "entropy20": ("explosion", "training high-entropy tokens alone makes entropy explode"),
}
"""By method: the alarm at which its entropy ends, and the claim."""


def entropy_claims(curves: Mapping[Variant, Sequence[FloatArray]]) -> list[Claim]:
    """What becomes of entropy. curves: mean H1 (steps,) of each seed, by variant."""
    claims: list[Claim] = []
    for variant, seeds in curves.items():
        ratios = [ratio for curve in seeds if (ratio := _ratio(curve)) is not None]
        if variant.method in ENTROPY_CLAIMS and ratios:
            alarm, name = ENTROPY_CLAIMS[variant.method]
            name = f"{variant.label}: {name}"
            claims.append(_entropy_claim(name, alarm, np.array(ratios), seeds))
    return claims


def prediction_claims(probes: Mapping[Variant, Sequence[tuple[float, float]]]) -> list[Claim]:
    """Whether dH2 is predicted as the paper says. probes: Pearson's r and the mean absolute error
    of each seed, by variant. Contradicted if the interval of either over seeds lies outside."""
    claims: list[Claim] = []
    for variant, seeds in probes.items():
        pairs = np.asarray(seeds, dtype=np.float64).reshape(-1, 2)
        (r, r_low, r_high), (error, low, high) = (_over_seeds(column) for column in pairs.T)
        r_span, error_span, outside = "", "", False
        if r_low is not None and r_high is not None:
            r_low, r_high = max(-1.0, r_low), min(1.0, r_high)
            r_span, outside = f" ({r_low:.3f} to {r_high:.3f})", r_high <= PEARSON_ABOVE
        if low is not None and high is not None:
            low = max(0.0, low)
            error_span, outside = f" ({low:.2g} to {high:.2g})", outside or low >= ERROR_BELOW
        within = (pairs[:, 0] > PEARSON_ABOVE).all() and (pairs[:, 1] < ERROR_BELOW).all()
        verdict: Verdict = "undecided"
        if len(pairs) > 1 and (outside or within):
            verdict = "contradicted" if outside else "supported"
        claims.append(
            Claim(
                f"{variant.label}: the first-order prediction of dH2 holds",
                verdict,
                f"Predicted and measured dH2 correlate at r = {r:.3f}{r_span} over "
                f"{counted(len(pairs), 'seed')}, with a mean absolute error of "
                f"{error:.2g}{error_span}; the paper claims r > {PEARSON_ABOVE} and an error under "
                f"{ERROR_BELOW}.",
                PredictionQuality((r, r_low, r_high), (error, low, high), len(pairs)),
            )
        )
    return claims


def _ratio(curve: FloatArray) -> float | None:
    """Mean H1 of the last tenth of the steps over the first; NaN steps are left out. None with
    fewer than two steps, or if the first is 0."""
    values = np.asarray(curve, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < 2 or values[0] <= 0:
        return None
    return float(values[-max(1, len(values) // 10) :].mean() / values[0])


def _entropy_claim(
    name: str, wanted: str | None, ratios: FloatArray, curves: Sequence[FloatArray]
) -> Claim:
    value, low, high = (
        None if bound is None else float(np.exp(bound))
        for bound in _over_seeds(np.log(np.maximum(ratios, 1e-12)))
    )
    assert value is not None
    span, outside = "", False
    if low is not None and high is not None:
        span = f" (95 % interval {low:.2f} to {high:.2f})"
        at_low, at_high = entropy_alarm(1.0, low), entropy_alarm(1.0, high)
        outside = {
            None: at_low == "explosion" or at_high == "collapse",
            "collapse": at_low != "collapse",
            "explosion": at_high != "explosion",
        }[wanted]
    alarms = [entropy_alarm(1.0, ratio) for ratio in ratios]
    verdict: Verdict = "undecided"
    caveat = ""
    if max(map(len, curves)) < LEAST_STEPS:
        caveat = f": fewer than {LEAST_STEPS} steps decide nothing"
    elif len(ratios) == 1:
        caveat = ": one seed decides nothing"
    elif all(alarm == wanted for alarm in alarms):
        verdict = "supported"
    elif outside:
        verdict = "contradicted"
    alarmed = sum(
        any(entropy_alarm(float(curve[0]), float(entropy)) for entropy in curve)
        for curve in curves
        if len(curve) and curve[0] > 0
    )
    ends = {"collapsed": "collapse", "exploded": "explosion", "within": None}
    ended = ", ".join(f"{alarms.count(ends[word])} {word}" for word in ends if ends[word] in alarms)
    return Claim(
        name,
        verdict,
        f"Mean H1 ends at {value:.2f} times its first value{span} over "
        f"{counted(len(ratios), 'seed')}, {ended} (under 0.1 is collapse, over 3 explosion); "
        f"{alarmed} crossed a bound at some step{caveat}.",
        EntropyRatio(value, low, high, ratios.tolist(), alarmed, len(ratios)),
    )


def _over_seeds(values: FloatArray) -> tuple[float, float | None, float | None]:
    """The mean of (S,) values with Student's 95 % interval; None where one value, or equal ones,
    show no luck."""
    result = infer(np.asarray(values, dtype=np.float64)[:, None])
    if result.half is None:
        return result.mean, None, None
    return result.mean, result.mean - result.half, result.mean + result.half
