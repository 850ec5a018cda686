"""The paper's claims of how training goes, judged seed by seed: entropy, and the predicted dH2.

Entropy neither collapses nor explodes (ours, the paper sets no bounds): the mean H1 of the last
tenth of the steps against the first step's, by the thresholds of the alarms. Supported if every
seed is within, contradicted if the 95 % interval over seeds (Student's t of the logarithms) lies
outside, else undecided; one seed decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np

from ictcli.compare.comparison import Claim, EntropyRatio, PredictionQuality, Verdict
from ictcli.compare.statistics import over_seeds
from ictcli.compare.variants import SUBJECT, Variant
from ictcli.tables.numbers import Format, counted, thousandths
from ictcli.tables.pages import sentence
from ictcli.tables.table import Span
from ictcli.train.health import entropy_alarm
from ictcli.types import FloatArray

TEMPLATE = Path(__file__).with_name("entropy_claim.jinja")
PEARSON_ABOVE, ERROR_BELOW = 0.95, 0.02
"""What the paper claims of predicted against measured dH2."""
LEAST_STEPS = 50
"""Shorter runs decide nothing about entropy; the paper's have 120 to 485 steps."""
ALARMS = ("collapse", None, "explosion")
"""Where entropy may end, by how large it is."""
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
        pearsons, errors = np.asarray(seeds, dtype=np.float64).reshape(-1, 2).T
        r, error = over_seeds(pearsons, -1.0, 1.0), over_seeds(errors, 0.0)
        within = (pearsons > PEARSON_ABOVE).all() and (errors < ERROR_BELOW).all()
        outside = r.high is not None and r.high <= PEARSON_ABOVE
        outside = outside or (error.low is not None and error.low >= ERROR_BELOW)
        verdict: Verdict = "undecided"
        if len(seeds) > 1 and (outside or within):
            verdict = "contradicted" if outside else "supported"
        claims.append(
            Claim(
                f"{variant.label}: the first-order prediction of dH2 holds",
                verdict,
                f"Predicted and measured dH2 correlate at r = {_with_span(r, thousandths)} over "
                f"{counted(len(seeds), 'seed')}, with a mean absolute error of "
                f"{_with_span(error, '{:.2g}'.format)}; the paper claims r > {PEARSON_ABOVE} and "
                f"an error under {ERROR_BELOW}.",
                PredictionQuality(
                    (r.value, r.low, r.high), (error.value, error.low, error.high), len(seeds)
                ),
            )
        )
    return claims


def _with_span(mean: Span, form: Format) -> str:
    """A mean, and its interval in brackets where there is one."""
    if mean.low is None or mean.high is None:
        return form(mean.value)
    return f"{form(mean.value)} ({form(mean.low)} to {form(mean.high)})"


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
    logs = over_seeds(np.log(np.maximum(ratios, 1e-12)))
    ratio, low, high = (None if x is None else float(np.exp(x)) for x in astuple(logs))
    alarms = [entropy_alarm(1.0, each) for each in ratios]
    long = max(map(len, curves)) >= LEAST_STEPS
    verdict: Verdict = "undecided"
    if long and len(ratios) > 1:
        if all(alarm == wanted for alarm in alarms):
            verdict = "supported"
        elif low is not None and high is not None:
            lowest, highest = (ALARMS.index(entropy_alarm(1.0, end)) for end in (low, high))
            if not lowest <= ALARMS.index(wanted) <= highest:
                verdict = "contradicted"
    alarmed = sum(
        any(entropy_alarm(float(curve[0]), float(entropy)) for entropy in curve)
        for curve in curves
        if len(curve) and curve[0] > 0
    )
    numbers = EntropyRatio(ratio or 0.0, low, high, ratios.tolist(), alarmed, len(ratios))
    words = {"collapse": "collapsed", "explosion": "exploded", None: "within"}
    ended = [f"{alarms.count(end)} {word}" for end, word in words.items() if end in alarms]
    text = sentence(TEMPLATE, numbers=numbers, ended=ended, long=long, least=LEAST_STEPS)
    return Claim(name, verdict, text, numbers)
