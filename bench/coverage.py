"""How often 95 % intervals over problems hold the truth, and how wide they are.

`python bench/coverage.py`: one core, about a minute. A first table is of pass@k, a second of its
paired change. A row is a number of problems, of samples and k; a column is a base rate of right
answers. A figure is the least coverage in % over problems that are equally hard or vary (chances
drawn from Beta distributions of SPREADS), and over CHANGES. Then come the mean width in points,
and the least coverage and the mean width of the percentile bootstrap.

`python bench/coverage.py --compare`: the intervals of `ictcli compare`, over seeds and problems, in
about three minutes. A row is a number of seeds, of problems and k, with 4 samples. Before the slash
stands the least coverage over problems that are equally hard or vary, where the luck of a run is
normal (sd 0.15 in logits); after it where it takes two values (0.3 up or down).
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import special

from ictcli.compare.statistics import estimate, evidence
from ictcli.evaluation.passk import bounds_of_mean, pass_at_k

PROBLEMS, SAMPLES, KS = (30, 100, 512), (4, 16), (1, 4)
BASES = (0.02, 0.1, 0.38, 0.9, 0.99)
SPREADS = (np.inf, 10.0, 2.0, 0.5)
"""a + b of Beta(a, b); inf: equally hard. At 0.5 most problems are always or never solved."""
CHANGES = ("none", "all", "most", "few")
"""What training does: nothing, lifts every problem, lifts most, turns one problem in 50 over."""
REPEATS, BOOTSTRAPS = 1000, 200
"""Draws of the problems that intervals are measured on, and how many of them the bootstrap is."""
REDRAWS = 400
"""Of the problems, by the bootstrap."""

Ends = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def chances(rng: np.random.Generator, base: float, spread: float, shape: tuple[int, int]):
    """Chances of a right answer, one per comparison and problem."""
    if np.isinf(spread):
        return np.full(shape, base)
    return np.clip(rng.beta(base * spread, (1 - base) * spread, shape), 1e-12, 1 - 1e-12)


def changed(rng: np.random.Generator, before: np.ndarray, change: str) -> np.ndarray:
    """The chances after training."""
    if change == "none":
        return before
    if change == "few":
        return np.where(rng.random(before.shape) < 0.02, 1 - before, before)
    noise = rng.normal(size=before.shape) if change == "most" else 0.0
    return special.expit(special.logit(before) + 0.8 + noise)


def passes(rng: np.random.Generator, chance: np.ndarray, n: int, k: int) -> np.ndarray:
    """Estimates of pass@k, each from n samples."""
    return pass_at_k(n, np.arange(n + 1), k)[rng.binomial(n, chance)]


def scores(
    rng: np.random.Generator, base: float, N: int, n: int, k: int
) -> Iterator[tuple[np.ndarray, float]]:
    """For each spread (REPEATS, N) values of pass@k and the true mean over all problems."""
    for spread in SPREADS:
        values = passes(rng, chances(rng, base, spread, (REPEATS, N)), n, k)
        a, b = base * spread, (1 - base) * spread
        wrong = (1 - base) ** k
        if np.isfinite(spread):
            wrong = np.exp(special.betaln(a, b + k) - special.betaln(a, b))
        yield values, float(1 - wrong)


def differences(
    rng: np.random.Generator, base: float, N: int, n: int, k: int
) -> Iterator[tuple[np.ndarray, float]]:
    """For each spread and change (REPEATS, N) paired differences of pass@k, and their true mean."""
    for spread, change in itertools.product(SPREADS, CHANGES):
        before = chances(rng, base, spread, (REPEATS, N))
        after = changed(rng, before, change)
        everything = chances(rng, base, spread, (1, 200_000))
        gained = (1 - everything) ** k - (1 - changed(rng, everything, change)) ** k
        yield passes(rng, after, n, k) - passes(rng, before, n, k), float(gained.mean())


def bootstrap(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the percentile bootstrap's intervals."""
    N = values.shape[1]
    weights = np.random.default_rng(0).multinomial(N, np.full(N, 1 / N), REDRAWS) / N
    low, high = np.quantile(values[:BOOTSTRAPS] @ weights.T, [0.025, 0.975], axis=1)
    return low, high


def measured(values: np.ndarray, truth: float, ends: Ends) -> tuple[float, float]:
    """(coverage, mean width) of the intervals of (repeats, N) values."""
    low, high = ends(values)
    held = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
    return float(held.mean()), float((high - low).mean())


def print_table(title: str, worlds: Callable[..., Iterator[tuple[np.ndarray, float]]], ends: Ends):
    """A row for each number of problems, samples and k."""
    print(f"\n{title}\n")
    heads = ["problems", "samples", "k", *(f"{base:g}" for base in BASES)]
    heads += ["width", "bootstrap", "width"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for N, n, k in itertools.product(PROBLEMS, SAMPLES, KS):
        rng = np.random.default_rng([N, n, k])
        cells = np.array(
            [
                [[measured(*world, way) for way in (ends, bootstrap)] for world in worlds(rng, *at)]
                for at in ((base, N, n, k) for base in BASES)
            ]
        )  # (bases, worlds, ours and the bootstrap's, coverage and width)
        coverage, width = 100 * cells[..., 0].min(axis=1), 100 * cells[..., 1].mean(axis=(0, 1))
        row = [f"{N}", f"{n}", f"{k}", *(f"{share:.0f}" for share in coverage[:, 0])]
        row += [f"{width[0]:.1f}", f"{coverage[:, 1].min():.0f}", f"{width[1]:.1f}"]
        print(f"| {' | '.join(row)} |", flush=True)


SEEDS, RUNS, GAIN = (2, 5), 200, 0.8
"""Of comparisons; how many are drawn for each cell; what training gains, in logits."""


def luck(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    """Of runs, in logits."""
    return rng.normal(0, 0.15, size) if kind == "normal" else rng.choice([-0.3, 0.3], size)


def compared(rng: np.random.Generator, base: float, S: int, N: int, k: int, kind: str):
    """For problems equally hard, and that vary: (coverage, width) of a mean and of a change."""
    found: list[np.ndarray] = []
    for spread in (0.0, 2.0):
        level = special.logit(base)
        world = np.random.default_rng(0)
        logits = level + spread * world.normal(size=200_000) + luck(world, kind, 200_000)
        truth = [float(1 - (special.expit(-logits - gain) ** k).mean()) for gain in (0, GAIN)]
        truths = truth[0], truth[1] - truth[0]
        figures = np.zeros((2, 2))
        for _ in range(RUNS):
            hard = level + spread * rng.normal(size=N)
            before, after = (
                passes(rng, special.expit(hard + gain + luck(rng, kind, S)[:, None]), 4, k)
                for gain in (0, GAIN)
            )
            ends = estimate(before), evidence(after, before).difference()
            for place, (each, mean) in enumerate(zip(ends, truths, strict=True)):
                low, high = (each.value if end is None else end for end in (each.low, each.high))
                figures[place] += low - 1e-9 <= mean <= high + 1e-9, high - low
        found.append(figures / RUNS)
    return found


def print_compared() -> None:
    """Two tables, of a mean and of a change."""
    rows: dict[int, list[str]] = {0: [], 1: []}
    for S, N, k in itertools.product(SEEDS, PROBLEMS, KS):
        cells = np.array(
            [
                [compared(np.random.default_rng([S, N, k]), base, S, N, k, kind) for base in BASES]
                for kind in ("normal", "two-point")
            ]
        )  # (kinds, bases, spreads, a mean and a change, coverage and width)
        for place, lines in rows.items():
            least = 100 * cells[:, :, :, place, 0].min(axis=2)
            both = [f"{normal:.0f} / {two:.0f}" for normal, two in least.T]
            width = f"{100 * cells[..., place, 1].mean():.1f}"
            lines.append(f"| {' | '.join([str(S), str(N), str(k), *both, width])} |")
    heads = ["seeds", "problems", "k", *(f"{base:g}" for base in BASES), "width"]
    for place, title in enumerate(("compare: pass@k", "compare: its paired change")):
        print(f"\n{title}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
        print("\n".join(rows[place]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true")
    if parser.parse_args().compare:
        print_compared()
        return
    print_table("pass@k", scores, bounds_of_mean)
    print_table("its paired change", differences, partial(bounds_of_mean, least=-1.0, most=1.0))


if __name__ == "__main__":
    main()
