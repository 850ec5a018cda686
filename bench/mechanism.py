"""What a report of `ictcli compare` does not ask: how much of the gradient is signal, which forks
methods keep at an equal share, and where uniqueness bends.

    python bench/mechanism.py runs/compare-study/ledger-easy

Reads comparison.json and the rollouts that the runs recorded, and samples the shared rollouts of
the comparison again. Prints three tables in Markdown:

- Each kind of token's share of the gradient, as a ratio to that under permuted rewards (1: what
  rewards without meaning give), and the net share towards right choices beside that of permuted
  rewards: their mean, and where 95 % of them lie. In each group the rollouts swap their rewards,
  verdicts and advantages at random, 20 times, and the method chooses and weighs anew.
- Recall and precision of the true forks with every method that has a share set to 10 %, and by how
  much the recall differs from that of as many random tokens and of as many of the highest entropy.
  Intervals are 95 %, over problems: a bootstrap of whole problems, since tokens of one are alike,
  and at least `crossed.near_bound`. They are of this model and this seed's samples alone.
- The elbow of the sorted curve of uniqueness: its point farthest below the line between its ends.
"""

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from ictcli.algorithm.attribution import KINDS
from ictcli.compare.crossed import near_bound
from ictcli.compare.design import slug
from ictcli.compare.gradients import RecordedStep, recorded_steps
from ictcli.compare.shared_rollouts import SharedRollouts, fork_figures, kept_by, sample_shared
from ictcli.engine import Engine, build_engine
from ictcli.recipe import Recipe
from ictcli.runs.rollouts import Batch
from ictcli.runs.trust import recipe_of
from ictcli.seeds import generator
from ictcli.tables.numbers import interval, percent, points
from ictcli.tasks import Domain
from ictcli.train.step import select

PERMUTATIONS = 20
SPREAD = 2.1
"""Standard deviations to either side that hold 95 % of permutations (Student's t of 20)."""
EQUAL_SHARE = 0.10
RESAMPLES = 4999
LEAST_PROBLEMS = 10
"""With forks, for an interval over problems to mean anything."""

Ends = tuple[float, float]


def permute(batch: Batch, rng: np.random.Generator) -> Batch:
    """The batch with rewards, verdicts and advantages swapped at random within each group."""
    B, group = len(batch.rollouts), batch.rollouts.group
    order = np.concatenate([first + rng.permutation(group) for first in range(0, B, group)])
    return replace(
        batch,
        verdicts=[batch.verdicts[row] for row in order],
        rewards=batch.rewards[order],
        advantage=batch.advantage[order],
    )


def attributed(step: RecordedStep, recipe: Recipe) -> np.ndarray:
    """(1 + PERMUTATIONS, 9): shares by kind, raised and lowered, then the net share towards right;
    first as trained, then permuted."""
    steps = [step]
    for number in range(PERMUTATIONS):
        batch = permute(step.batch, generator(recipe.seed, "permuted", step.number, number))
        weights = select(recipe, batch, step.number).weights
        steps.append(replace(step, batch=batch, weights=weights))
    found = [each.attributed() for each in steps]
    return np.array([[*each.shares.sum(axis=2).ravel(), each.towards_right] for each in found])


def print_gradients(runs: Mapping[str, Sequence[Path]], domain: Domain, tokenizer: Any) -> None:
    """A row for each variant whose runs recorded a step with a gradient."""
    kinds = KINDS if domain.decisions else ("sure", "rest")
    print_row(
        "method", *(f"{kind} {sign}" for kind in kinds for sign in "+\u2212"), "towards right"
    )
    print_row(*["---"] * (2 + 2 * len(kinds)))
    recipes = {label: recipe_of(its[0]) for label, its in runs.items()}
    warmup = max((recipe.dense_steps for recipe in recipes.values()), default=0)
    for label, its in runs.items():
        means: list[np.ndarray] = []
        for run in its:
            recipe = recipe_of(run)
            steps = recorded_steps(run, warmup, domain, tokenizer, print)
            if found := [attributed(step, recipe) for step in steps]:
                means.append(np.mean(found, axis=0))
        trained, permuted = np.mean(means, axis=0)[0], np.mean(means, axis=0)[1:]
        mean, half = permuted.mean(axis=0), SPREAD * permuted.std(axis=0, ddof=1)
        places = [2 * KINDS.index(kind) + sign for kind in kinds for sign in (0, 1)]
        ratios = [f"{trained[at] / mean[at]:.2f}" if mean[at] > 0 else "" for at in places]
        net = "" if len(kinds) < len(KINDS) else points(trained[-1])
        if net:
            ends = interval(max(mean[-1] - half[-1], -1.0), min(mean[-1] + half[-1], 1.0), points)
            net += f" ({points(mean[-1])}, {ends})"
        print_row(label, *ratios, net)


def over_problems(part: np.ndarray, whole: np.ndarray, least: float = 0.0) -> Ends | None:
    """95 % interval of sum(part) / sum(whole), (N,) each and in [`least`, 1], for other problems of
    the kind. None where fewer than LEAST_PROBLEMS count."""
    if int((whole > 0).sum()) < LEAST_PROBLEMS:
        return None

    def ratio(a: Any, b: Any, axis: int) -> Any:
        return a.sum(axis=axis) / np.maximum(b.sum(axis=axis), 1e-12)

    drawn: Any = stats.bootstrap(
        (part, whole),
        ratio,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = drawn.confidence_interval
    counted = whole > 0
    at_least = near_bound((part[counted] / whole[counted])[None, :], least) or (low, high)
    return float(min(low, at_least[0])), float(max(high, at_least[1]))


def print_forks(shared: SharedRollouts) -> None:
    """A row for each variant that has a share to set."""
    forks, rollouts = shared.forks, shared.batch.rollouts
    if forks is None:
        print("The task does not say where its true forks are.")
        return
    valid = rollouts.valid
    columns = ("kept", "forks kept", "share, %", "recall, %", "precision, %")
    print_row("method", *columns, "above random", "above highest entropy")
    print_row(*["---"] * 8)

    def by_problem(marked: np.ndarray) -> np.ndarray:
        return marked.reshape(-1, rollouts.group * marked.shape[1]).sum(axis=1).astype(np.float64)

    def above(hits: np.ndarray, other: np.ndarray) -> str:
        more, every = hits - other, by_problem(forks)
        return spanned(more.sum() / every.sum(), over_problems(more, every, -1.0), points)

    rank = np.argsort(np.argsort(-rollouts.stats["entropy"][valid], kind="stable"))
    for label, recipe in shared.recipes.items():
        if "keep" not in recipe.rule.options.model_fields:
            continue
        keep = 1 - EQUAL_SHARE if recipe.rule.name == "frequent" else EQUAL_SHARE
        equal = recipe.model_copy(update={"method": {**recipe.method, "keep": keep}})
        kept = kept_by(equal, shared.batch)
        found, hits = fork_figures(kept, forks, valid), by_problem(kept & forks)
        highest = np.zeros_like(valid)
        highest[valid] = rank < found.kept
        print_row(
            label,
            f"{found.kept:,}",
            f"{found.hits:,}",
            percent(found.share),
            spanned(found.recall, over_problems(hits, by_problem(forks)), percent),
            spanned(found.precision, over_problems(hits, by_problem(kept)), percent),
            above(hits, found.share * by_problem(forks)),
            above(hits, by_problem(highest & forks)),
        )


def spanned(value: float, ends: Ends | None, form: Any) -> str:
    return form(value) + (f" {interval(*ends, form)}" if ends else "")


def print_elbow(curve: Mapping[str, Sequence[float]]) -> None:
    share, value = np.array(curve["share"]), np.array(curve["value"])
    at = int(np.argmax(value[0] + (value[-1] - value[0]) * share - value))
    print(f"elbow of uniqueness: {percent(share[at])} % of the tokens, u = {value[at]:.3g}")


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def sampled(recipes: Mapping[str, Recipe], seed: int) -> tuple[SharedRollouts, Engine]:
    """The shared rollouts of the comparison."""
    first = next(iter(recipes.values()))
    engine = build_engine(first.model, first.engine)
    return sample_shared(recipes, seed, engine), engine


def main(folder: Path) -> None:
    comparison = json.loads((folder / "comparison.json").read_text())
    seed = tomllib.loads(comparison["recipe_toml"]).get("seed", 0)

    def runs(label: str) -> list[Path]:
        folders = (folder / f"{slug(label)}-s{seed}" for seed in comparison["seeds"])
        return [path for path in folders if (path / "summary.json").exists()]

    shared, engine = sampled(
        {label: recipe_of(runs(label)[0]) for label in comparison["overlap"]["labels"]},
        seed,
    )
    by_label = {label: runs(label) for label in comparison["attribution"]}
    if by_label:
        print_gradients(by_label, shared.domain, engine.tokenizer)
        print()
    print_forks(shared)
    print()
    print_elbow(comparison["uniqueness"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
