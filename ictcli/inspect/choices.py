"""What each method would have kept of the same rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ictcli.algorithm.advantages import group_advantage
from ictcli.algorithm.methods import Method, find_method
from ictcli.algorithm.shares import beside
from ictcli.inspect.record import Recorded
from ictcli.train.step import Plan, select
from ictcli.types import ROW_STATS, BoolArray, FloatArray

USUAL = ("ict", "entropy20", "stapo", "random")
TRAINED = "trained"


@dataclass(frozen=True)
class Choice:
    """The tokens one method trains, (B, T) each."""

    name: str
    about: str
    """A few words on where it comes from."""
    kept: BoolArray
    weights: FloatArray
    trained: bool = False
    """Whether it is what this step was trained on."""


@dataclass(frozen=True)
class Missing:
    """A method whose statistics were not recorded."""

    name: str
    statistics: tuple[str, ...]

    @property
    def hint(self) -> str:
        wanted = self.statistics == ("uniqueness",)
        return f"{'record.uniqueness=true' if wanted else f'method={self.name}'} records it"

    @property
    def sentence(self) -> str:
        return f"{self.name} needs {' and '.join(self.statistics)}, not recorded: {self.hint}"


def methods_of(recorded: Recorded, names: Sequence[str] = ()) -> list[str]:
    """The methods to ask: those named, else the run's own and the usual ones. UserError for a name
    there is none of."""
    own = [recorded.own] if recorded.own else []
    asked = list(dict.fromkeys(names or (*own, *USUAL)))
    for name in asked:
        find_method(name)
    return asked


def choices_of(recorded: Recorded, names: Sequence[str]) -> tuple[list[Choice], list[Missing]]:
    """What was trained, first, and what each method keeps behind any dense warm-up.

    A method keeps what the trainer would: `select` on the whole batch, by the run's mini-batches,
    share and seed; the run's own method with its own options, a method with a share to set at its
    `keep` and `scope`. Where the run's method made the same
    choice as was trained, the two are one.
    """
    own = recorded.own
    found: list[Choice] = []
    missing: list[Missing] = []
    for name in names:
        plan = _plan(recorded, find_method(name), own=name == own)
        if isinstance(plan, Missing):
            missing.append(plan)
            continue
        same = name == own and np.array_equal(plan.kept, recorded.kept)
        weights = recorded.weights if same else plan.weights
        about = "as it was trained" if same else "on the same rollouts"
        found.append(Choice(name, about, plan.kept, weights, trained=same))
    if not any(choice.trained for choice in found):
        about = "what was trained"
        if own and recorded.recipe.rule.dense_warmup and recorded.step <= recorded.recipe.warmup:
            about += f": every token, in {own}'s dense warm-up of {recorded.recipe.warmup} steps"
        trained = Choice(TRAINED, about, recorded.kept, recorded.weights, trained=True)
        found.insert(0, trained)
    return sorted(found, key=lambda choice: not choice.trained), missing


def _plan(recorded: Recorded, method: Method, *, own: bool) -> Plan | Missing:
    batch, recipe = recorded.batch, recorded.recipe
    absent = [name for name in (*method.wants, *ROW_STATS) if name not in batch.rollouts.stats]
    if absent:
        return Missing(method.name, tuple(absent))
    if not own:
        scaled = method.scaled_advantage
        batch = replace(batch, advantage=group_advantage(batch.rewards, recipe.group, scale=scaled))
        recipe = recipe.model_copy(update={"method": beside(recipe.method, method.name)})
    try:
        return select(recipe.model_copy(update={"warmup": 0}), batch, recorded.step)
    except KeyError as error:  # a plugin's rule that looks at what it does not name
        return Missing(method.name, (str(error.args[0]),))


def overlap(one: BoolArray, other: BoolArray) -> float | None:
    """Jaccard overlap of two choices; None where both are empty."""
    either = int((one | other).sum())
    return int((one & other).sum()) / either if either else None
