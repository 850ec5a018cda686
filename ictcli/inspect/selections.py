"""What each method keeps of the same rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ictcli.algorithm.methods import Method, find_method
from ictcli.algorithm.quantities import statistic
from ictcli.algorithm.shares import beside
from ictcli.algorithm.weights import group_advantage
from ictcli.inspect.recorded import RecordedStep
from ictcli.train.step import StepSelection, select
from ictcli.types import ROW_STATS, BoolArray, FloatArray

USUAL = ("ict", "entropy20", "stapo", "random")
TRAINED = "trained"


@dataclass(frozen=True)
class Selection:
    """The tokens that a method keeps of a step, and their weights, (B, T) each."""

    name: str
    about: str
    kept: BoolArray
    weights: FloatArray
    trained: bool = False


@dataclass(frozen=True)
class MissingStatistics:
    """The statistics that a method needs and the run did not record."""

    name: str
    statistics: tuple[str, ...]
    sentence: str


def missing_statistics(name: str, *statistics: str) -> MissingStatistics:
    """With a sentence on how to record them."""
    setting = f"method={name}"
    if statistics == ("uniqueness",):
        setting = "record.uniqueness=true"
    elif statistic(statistics[0]).kind == "context":
        setting = f"method.reference={statistics[0]}"
    sentence = f"{name} needs {' and '.join(statistics)}, not recorded: {setting} records it"
    return MissingStatistics(name, statistics, sentence)


def select_all(
    recorded: RecordedStep, names: Sequence[str] = ()
) -> tuple[list[Selection], list[MissingStatistics]]:
    """What was trained, first, and what each method would have kept after its dense warm-up.

    Asks the methods `names`, by default the run's and the usual ones. Each selects as the trainer
    does: on the whole batch with the run's mini-batches, keep, scope and seed. A run's method that
    selects what was trained appears once. UserError for an unknown method.
    """
    run_method = recorded.run_method
    default = (run_method, *USUAL) if run_method else USUAL
    methods = [find_method(name) for name in dict.fromkeys(names or default)]
    selections: list[Selection] = []
    missing: list[MissingStatistics] = []
    for method in methods:
        chosen = _select(recorded, method)
        if isinstance(chosen, MissingStatistics):
            missing.append(chosen)
            continue
        same = method.name == run_method and np.array_equal(chosen.kept, recorded.kept)
        weights = recorded.weights if same else chosen.weights
        about = "as it was trained" if same else "on the same rollouts"
        selections.append(Selection(method.name, about, chosen.kept, weights, trained=same))
    if not any(selection.trained for selection in selections):
        about, recipe = "what was trained", recorded.recipe
        if run_method and recipe.rule.dense_warmup and recorded.step <= recipe.warmup:
            about += f": every token, in {run_method}'s dense warm-up of {recipe.warmup} steps"
        trained = Selection(TRAINED, about, recorded.kept, recorded.weights, trained=True)
        selections.insert(0, trained)
    return sorted(selections, key=lambda selection: not selection.trained), missing


def _select(recorded: RecordedStep, method: Method) -> StepSelection | MissingStatistics:
    batch, recipe = recorded.batch, recorded.recipe
    absent = [name for name in (*method.wants, *ROW_STATS) if name not in batch.rollouts.stats]
    if absent:
        return missing_statistics(method.name, *absent)
    if method.name != recorded.run_method:
        scaled = method.scaled_advantage
        batch = replace(batch, advantage=group_advantage(batch.rewards, recipe.group, scale=scaled))
        recipe = recipe.model_copy(update={"method": beside(recipe.method, method.name)})
    try:
        return select(recipe.model_copy(update={"warmup": 0}), batch, recorded.step)
    except KeyError as error:  # a plugin that uses a statistic it does not name
        return missing_statistics(method.name, str(error.args[0]))


def overlap(a: BoolArray, b: BoolArray) -> float | None:
    """Jaccard overlap of two masks; None where both are empty."""
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else None
