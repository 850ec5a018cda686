"""What the runs of a comparison trained: shares of tokens and of forks."""

from pathlib import Path

import pytest
from small_runs import finished_run

from ictcli.compare.design import Design, run_specs
from ictcli.compare.finished import FinishedRun, VariantRuns, by_variant
from ictcli.compare.run_means import fork_recalls, trained_tokens
from ictcli.compare.variants import read_grid, variants_of
from ictcli.runs.records import StepMetrics

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


def test_forks_are_counted_behind_every_warm_up_that_ends(tmp_path: Path) -> None:
    recall, kept = fork_recalls(finished(tmp_path), [0, 1])
    by_label = {variant.label: seeds.tolist() for variant, seeds in recall.items()}
    assert by_label == {f"ict warmup={warmup}": [[0.2], [0.2]] for warmup in (0, 2)}
    assert [each.share_kept for each in kept.values()] == pytest.approx([0.1, 0.1])
