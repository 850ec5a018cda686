"""A comparison whose seeds start from several base models, one model at a time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ictcli.compare.comparison import ByModel
from ictcli.compare.correction import differences
from ictcli.compare.finished import VariantRuns
from ictcli.compare.statistics import Extra, Scores, estimate, variance


def name_of(model: str) -> str:
    """A base model as reports name it: a folder below the working directory by its path from there,
    which says nothing of the machine."""
    path, here = Path(model), Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here)
    return path.relative_to(here).as_posix() if inside else model


def by_model(
    variants: Sequence[VariantRuns],
    seeds: Sequence[int],
    scores: Scores,
    base: str,
    extra: Extra,
    level: float,
) -> dict[str, ByModel]:
    """Empty where all runs start from one model."""
    starts = {
        run.spec.seed: name_of(run.spec.recipe.model) for each in variants for run in each.runs
    }
    models = list(dict.fromkeys(starts[seed] for seed in seeds if seed in starts))
    metric, values = next(iter(scores.items()))
    found: dict[str, ByModel] = {}
    for model in models if len(models) > 1 else ():
        rows = [place for place, seed in enumerate(seeds) if starts.get(seed) == model]
        own = {label: cells[rows] for label, cells in values.items()}
        own = {label: cells for label, cells in own.items() if not np.isnan(cells).all()}
        minus = differences({metric: own}, base, extra, level)[metric] if base in own else {}
        found[model] = ByModel(
            seeds=[seeds[place] for place in rows],
            estimates={
                label: estimate(cells, variance(extra, metric, label))
                for label, cells in own.items()
            },
            differences=minus,
        )
    return found
