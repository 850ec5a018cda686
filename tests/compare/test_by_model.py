"""Seeds that start from several base models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from small_runs import finished_run, small_design

from ictcli.compare.design import run_specs
from ictcli.compare.finished import by_variant
from ictcli.compare.judging import by_model, differences
from ictcli.compare.statistics import BEFORE, estimate


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
