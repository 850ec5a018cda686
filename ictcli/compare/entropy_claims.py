"""The paper's claims of how training goes: entropy, and the predicted dH2.

What becomes of entropy is measured: the mean H1 of the last tenth of the steps against the first
step's, with its interval over seeds (Student's t of the logarithms). The paper sets no bounds, and
a verdict by one of ours would hang on where it lies.

What is tested is entropy at equal accuracy, since a model that has learnt more is surer: the runs
of a seed are compared where both pass through the same share of correct rollouts (`matched`), seed
by seed; of all tokens and, where a task knows its forks and rollouts were recorded, of decisions
and free words apart. Ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import product
from pathlib import Path

import numpy as np

from ictcli.compare.comparison import Claim, EntropyRatio, PredictionQuality, Verdict
from ictcli.compare.judging import ClaimTest
from ictcli.compare.statistics import Evidence, over_seeds
from ictcli.compare.variants import SUBJECT, Variant
from ictcli.tables import Span
from ictcli.tables.numbers import Format, counted, listed, thousandths
from ictcli.tables.pages import sentence
from ictcli.train.health import entropy_alarm
from ictcli.types import FloatArray

TEMPLATE = Path(__file__).with_name("entropy_claim.jinja")
PEARSON_ABOVE, ERROR_BELOW = 0.95, 0.02
"""What the paper claims of predicted against measured dH2."""
ENTROPY_CLAIMS = {
    SUBJECT: "neither collapse nor explosion",
    "grpo": "collapse",
    "entropy20": "explosion",
}
"""What the paper says becomes of it."""
RIVALS = {"grpo": ("more", 1), "entropy20": ("less", -1)}
"""Whether the paper says that ict keeps more entropy than these, or less."""
ACCURACIES = 50

Courses = Mapping[str, Mapping[Variant, Mapping[int, FloatArray]]]
"""By kind of tokens, variant and seed: (2, steps), the share of correct rollouts and mean H1."""


def entropy_claims(curves: Mapping[Variant, Sequence[FloatArray]]) -> list[Claim]:
    """What becomes of entropy. curves: mean H1 (steps,) of each seed, by variant."""
    claims: list[Claim] = []
    for variant, seeds in curves.items():
        known = [curve[np.isfinite(curve)] for curve in seeds if variant.method in ENTROPY_CLAIMS]
        ratios = [
            float(curve[-max(1, len(curve) // 10) :].mean() / curve[0])
            for curve in known
            if len(curve) > 1 and curve[0] > 0
        ]
        if not ratios:
            continue
        logs = over_seeds(np.log(np.maximum(ratios, 1e-12)))
        ratio, low, high = (None if x is None else float(np.exp(x)) for x in astuple(logs))
        alarmed = sum(
            any(entropy_alarm(float(curve[0]), float(entropy)) for entropy in curve)
            for curve in seeds
            if len(curve) and curve[0] > 0
        )
        numbers = EntropyRatio(ratio or 0.0, low, high, ratios, alarmed, len(ratios))
        said = ENTROPY_CLAIMS[variant.method]
        name = f"what becomes of {variant.label}'s entropy (the paper: {said})"
        text = sentence(TEMPLATE, numbers=numbers)
        claims.append(Claim(name, "measured", text, numbers, ours=not variant.is_paper()))
    return claims


def entropy_tests(courses: Courses) -> list[ClaimTest]:
    """Whether each variant of ict keeps more entropy than grpo, and less than entropy20, at equal
    accuracy. Pairs without a seed in which both learn through the same accuracy are left out. The
    first kind of tokens has all runs; a test tells of other kinds for which no rollouts do."""
    tests: list[ClaimTest] = []
    everyone = next(iter(courses.values()))
    judged = [each for each in everyone if each.method == SUBJECT]
    for variant, (method, (word, sign)) in product(judged, RIVALS.items()):
        rival = variant.counterpart(method, everyone)
        if rival is None:
            continue
        found: dict[str, list[float]] = {}
        for kind, its in courses.items():
            own, other = its.get(variant, {}), its.get(rival, {})
            ratios = [matched(own[seed], other[seed]) for seed in own if seed in other]
            found[kind] = [ratio for ratio in ratios if ratio is not None]
        missing = [kind for kind, known in found.items() if not known]
        for kind, known in found.items():
            if known:
                note = f"No rollouts tell for {listed(missing)}; those tests count too."
                tests.append(
                    ClaimTest(
                        f"{variant.label} keeps {word} entropy than {rival.label} at equal "
                        f"accuracy: {kind}",
                        f"{variant.label}'s mean H1 of {kind} at equal accuracy",
                        rival.label,
                        Evidence(np.array(known)[:, None], -np.inf),
                        "entropy" if variant.is_paper(rival) else "variants",
                        unit="ratio",
                        sign=sign,
                        unmeasured=len(missing),
                        note=note if missing else "",
                    )
                )
                missing = []  # they are counted once
    return tests


def matched(own: FloatArray, other: FloatArray) -> float | None:
    """The logarithm of how many times the entropy of another course (2, steps) one has, the mean
    over the accuracies that both reach for the first time. None where there are none."""
    courses = _reached(own), _reached(other)
    if not all(accuracy.size for accuracy, _ in courses):
        return None
    low = max(float(accuracy[0]) for accuracy, _ in courses)
    high = min(float(accuracy[-1]) for accuracy, _ in courses)
    if low >= high:
        return None
    at: FloatArray = np.linspace(low, high, ACCURACIES)
    first, second = (np.asarray(np.interp(at, *course)) for course in courses)
    return float(np.mean(first - second))


def _reached(course: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each accuracy that is higher than all before it, and the logarithm of the entropy there;
    both are means over a tenth of the steps."""
    known = course[:, np.isfinite(course).all(axis=0) & (course[1] > 0)]
    width = max(known.shape[1] // 10, 1)
    kernel = np.full(width, 1 / width)
    if not known.size:
        return known[0], known[1]
    accuracy, entropy = (np.convolve(row, kernel, "valid") for row in (known[0], np.log(known[1])))
    before = np.maximum.accumulate(np.concatenate([[-np.inf], accuracy[:-1]]))
    return accuracy[accuracy > before], entropy[accuracy > before]


def prediction_claims(probes: Mapping[Variant, Sequence[tuple[float, float]]]) -> list[Claim]:
    """Whether dH2 is predicted as the paper says. probes: Pearson's r and the mean absolute error
    of each seed, by variant. Supported if the intervals of both over seeds lie inside, contradicted
    if that of either lies outside."""
    claims: list[Claim] = []
    for variant, seeds in probes.items():
        pearsons, errors = np.asarray(seeds, dtype=np.float64).reshape(-1, 2).T
        r, error = over_seeds(pearsons, -1.0, 1.0), over_seeds(errors, 0.0)
        within = r.low is not None and r.low > PEARSON_ABOVE
        within = within and error.high is not None and error.high < ERROR_BELOW
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
                PredictionQuality(astuple(r), astuple(error), len(seeds)),
                ours=not variant.is_paper(),
            )
        )
    return claims


def _with_span(mean: Span, form: Format) -> str:
    if mean.low is None or mean.high is None:
        return form(mean.value)
    return f"{form(mean.value)} ({form(mean.low)} to {form(mean.high)})"
