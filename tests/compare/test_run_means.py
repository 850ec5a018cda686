"""What the runs of a comparison trained: shares of tokens and of forks, from which models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mechanism import over_problems
from small_runs import finished_run, small_design
from synthetic import GROUP, batch_of

from ictcli.algorithm.weights import group_advantage
from ictcli.compare.design import Design, run_specs
from ictcli.compare.finished import FinishedRun, VariantRuns, by_variant
from ictcli.compare.judging import by_model, differences
from ictcli.compare.run_means import fork_recalls, trained_tokens
from ictcli.compare.shared_rollouts import kept_by
from ictcli.compare.statistics import BEFORE, estimate
from ictcli.compare.variants import read_grid, variants_of
from ictcli.recipe import load_recipe
from ictcli.runs.records import StepMetrics
from ictcli.train.finish import kept_tokens

WARMUPS = (0, 2, 4)


def finished(folder: Path) -> list[VariantRuns]:
    """Four steps of each variant and seed, dense in its warm-up: after it a tenth of the tokens
    and a fifth of the forks."""
    variants = variants_of(("ict", "grpo"), [read_grid("warmup=0,2,4", "--sweep")])
    design = Design("chain-compare", ("steps=4",), variants, 2, folder)
    found: list[FinishedRun] = []
    for one in run_specs(design):
        dense = 4 if one.variant.method == "grpo" else one.recipe.warmup
        shares = [1.0] * dense + [0.1] * (4 - dense)
        lines = [
            StepMetrics(step=step, fork_recall=min(1.0, 2 * x), share_kept=x)
            for step, x in enumerate(shares, 1)
        ]
        chose = shares[dense if dense < 4 else 0]
        kept = {"tokens_kept_share": sum(shares) / 4, "kept_tokens": {"share_kept": chose}}
        found.append(finished_run(one, lines, **kept))
    return by_variant(variants, found)


def test_shares_are_those_of_the_runs_with_their_warm_up(tmp_path: Path) -> None:
    known = {each.variant.label: trained_tokens(each.runs) for each in finished(tmp_path)}
    for warmup, whole, after in zip(WARMUPS, (0.1, 0.55, 1.0), (0.1, 0.1, None), strict=True):
        shares = known[f"ict warmup={warmup}"]
        assert (shares.tokens_kept_share, shares.share_kept) == (pytest.approx(whole), after)


def test_kept_tokens_of_high_for_each_of_low_entropy_are_counted_over_all_steps() -> None:
    ratios = (1.0, 3.0, None)  # of 10, 20 and 30 kept tokens; None: all of them are high
    steps = [
        StepMetrics(step=n, high_low_ratio=ratio, share_kept=0.1, length=n * 100.0)
        for n, ratio in enumerate(ratios, 1)
    ]
    found = kept_tokens(steps, load_recipe("chain", ["method=random", "warmup=0"]))
    assert found["high_low_ratio"] == pytest.approx((5 + 15 + 30) / (5 + 5))


def test_forks_are_counted_behind_every_warm_up_that_ends(tmp_path: Path) -> None:
    recall, kept = fork_recalls(finished(tmp_path), [0, 1])
    by_label = {variant.label: seeds.tolist() for variant, seeds in recall.items()}
    assert by_label == {f"ict warmup={warmup}": [[0.2], [0.2]] for warmup in (0, 2)}
    assert [each.share_kept for each in kept.values()] == pytest.approx([0.1, 0.1])


def test_each_model_is_judged_by_its_own_seeds_alone(tmp_path: Path) -> None:
    design = replace(small_design(tmp_path), seeds=6, models=("a", "b"))
    specs = run_specs(design)
    done = [finished_run(spec) for spec in specs]
    seeds = list(dict.fromkeys(spec.seed for spec in specs))
    rng = np.random.default_rng(0)
    labels = [BEFORE, "ict", "grpo", "random"]
    scores = {"pass@1": {label: rng.random((6, 40)) for label in labels}}
    scores["pass@1"]["random"][[1, 3, 5]] = np.nan  # no run of it from b finished
    doubt = {"pass@1": {"ict": 0.01}}  # about the value that tuning chose
    found = by_model(by_variant(design.variants, done), seeds, scores, "grpo", doubt, 0.05)
    for turn, model in enumerate("ab"):
        own = {label: cells[turn::2] for label, cells in scores["pass@1"].items()}
        if model == "b":
            del own["random"]
        assert found[model].seeds == seeds[turn::2]
        assert found[model].estimates == {
            label: estimate(cells, 0.01 * (label == "ict")) for label, cells in own.items()
        }
        assert found[model].differences == differences({"pass@1": own}, "grpo", doubt)["pass@1"]
    alone = by_variant(design.variants, [run for run in done if run.spec.recipe.model == "a"])
    assert by_model(alone, seeds, scores, "grpo", {}, 0.05) == {}


def test_the_interval_is_that_of_the_ratio_estimator() -> None:
    """Cochran 1977, 6.4: the variance of R = sum h / sum f is sum (h - R f)^2 / (sum f)^2, up to
    n / (n - 1). Problems whose tokens are alike widen it, which a binomial would not see."""
    rng = np.random.default_rng(0)
    forks = rng.integers(5, 60, 400).astype(float)
    hits = rng.binomial(forks.astype(int), rng.beta(2, 6, 400)).astype(float)
    R = hits.sum() / forks.sum()
    half = 1.96 * np.sqrt(((hits - R * forks) ** 2).sum() * 400 / 399) / forks.sum()
    found = over_problems(hits, forks)
    assert found == pytest.approx((R - half, R + half), rel=0.03)
    binomial = 1.96 * np.sqrt(R * (1 - R) / forks.sum())
    assert found is not None and found[1] - found[0] > 3 * binomial


@pytest.mark.parametrize("method", ["gmts", "clip_cov", "maxrl"])
def test_each_variant_chooses_by_its_own_advantages(method: str) -> None:
    """Whichever variant the shared rollouts were sampled for, with the deviation or without."""
    batch = batch_of(0)
    recipe = load_recipe("chain-compare", [f"method={method}", f"group={GROUP}"])
    scaled, plain = (
        replace(batch, advantage=group_advantage(batch.rewards, GROUP, scale=scale))
        for scale in (True, False)
    )
    assert not np.array_equal(scaled.advantage, plain.advantage)
    np.testing.assert_array_equal(kept_by(recipe, scaled), kept_by(recipe, plain))
