"""Statistics of the tokens that methods keep, such as the share of branches. Nothing is trained.

A branch is a token at which another response of the group has the same text so far, and then a
different token (`ictcli.algorithm.branches`). Methods change decisions only by training
branches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ictcli.algorithm.branches import SURE, prefix_tree
from ictcli.algorithm.dynamics import diagnose, spearman
from ictcli.algorithm.methods import beside
from ictcli.engine import build_engine
from ictcli.errors import UserError
from ictcli.evaluation.passk import Interval, ratio_interval
from ictcli.inspect.recorded import find_recordings, read_step
from ictcli.inspect.view import why_missing
from ictcli.recipe import Recipe, RecipeFile, load_recipe, toml_value
from ictcli.runs import is_run
from ictcli.runs.list import existing, find_model
from ictcli.runs.rollouts import Batch
from ictcli.tasks.prepare import task_of
from ictcli.tasks.unread import usable
from ictcli.train.sample import sample_batch, with_advantage
from ictcli.train.step import select
from ictcli.types import BoolArray, FloatArray

SHARES = (0.05, 0.1, 0.2)
PAPER = {"kept_prob": 0.18, "high_low_ratio": 1.03}
"""Figures of the tokens that ict keeps, as arXiv 2606.19771 states them for GSM8K."""
USUAL = ("ict", "ict max_prob=0.99", "ict score=u*h", "ict score=h", "entropy20", "random")
"""The default methods. `ict reference=response` and `=group`, which are other interpretations of
the paper, are left out because they need two more passes."""


@dataclass(frozen=True)
class Placement:
    """Statistics of the tokens of a batch that a method keeps; shares are from 0 to 1, and
    intervals are over prompts."""

    method: str
    keep: float
    """The method's setting `keep`: the share of tokens to keep."""
    kept: float
    branch_recall: Interval | None
    later_recall: Interval | None
    """Share kept of the branches after the first of their group."""
    branch_precision: float | None
    kept_prob: Interval | None
    kept_sure: Interval | None
    high_low_ratio: float | None
    """Ratio of the kept tokens above the median entropy H1 to the other kept tokens."""
    entropy_spearman: float | None
    """Spearman's correlation between being kept and H1."""
    by_entropy: tuple[float, ...]
    """Share kept in each tenth of the tokens, sorted by H1 from the lowest."""


@dataclass(frozen=True)
class Branches:
    """The branches of a batch of rollouts, and the tokens that methods keep."""

    source: str
    task: str
    temperature: float
    group: int
    responses: int
    tokens: int
    alone_from: float | None
    """Median position, from 1, at which a response begins to differ from all of its group."""
    branch_share: float | None
    first_share: float | None
    """Share of the branches that are the first of their group."""
    sure: float | None
    prob: float
    """Mean probability of all tokens."""
    uniqueness: float | None
    uniqueness_entropy_spearman: float | None
    placements: tuple[Placement, ...]
    missing: Mapping[str, str]


def recorded_or_sampled(
    source: str,
    overrides: Sequence[str],
    step: int | None,
    names: Sequence[str],
    say: Callable[[str], None],
) -> Branches:
    """Return `branches_of` a recorded step of a run, by default the last, or of groups sampled from
    a model. UserError if the step, run or model does not exist."""
    place = existing(Path(source))
    if place is None or not is_run(place):
        recipe, batch = sampled(find_model(source), overrides, names, say)
        return branches_of(recipe, batch, source, names)
    if overrides:
        raise UserError("Settings cannot change a run's recorded rollouts.", "leave KEY=VALUE out")
    steps = find_recordings(place)
    recorded = read_step(place, steps, max(steps) if step is None else step)
    for note in recorded.notes:
        say(f"note: {note}")
    return branches_of(recorded.recipe, recorded.batch, f"{place}, step {recorded.step}", names)


def sampled(
    model: str, overrides: Sequence[str], names: Sequence[str], say: Callable[[str], None]
) -> tuple[Recipe, Batch]:
    """Return groups sampled from a model as in the first training step of `ict`, and their recipe.
    The groups have the statistics that the methods `names` need. `overrides` set keys of the
    recipe, of which `task` is required. Raises UserError as `load_recipe` does."""
    data = {"model": model, "method": "ict", "steps": 1, "prompts": 16, "warmup": 0}
    file = RecipeFile(model, Path("ictcli inspect"), data, own=True)
    recipe = load_recipe(file, overrides)
    say(f"loading {recipe.model}")
    engine = build_engine(recipe.model, recipe.engine, recipe.optimizer)
    task = usable(engine, task_of(recipe), recipe)
    say(f"sampling {recipe.group} responses to each of {recipe.prompts} prompts")
    batch = sample_batch(recipe, engine, task, 1)
    wanted = [name for text in names or USUAL for name in _variant(recipe, text).wanted_stats]
    later = [name for name in dict.fromkeys(wanted) if name not in batch.rollouts.stats]
    stats = {**batch.rollouts.stats, **engine.score(batch.rollouts, later)}
    return recipe, replace(batch, rollouts=replace(batch.rollouts, stats=stats))


def _variant(recipe: Recipe, text: str) -> Recipe:
    """Return the recipe with the method and settings of a text such as `ict score=h`."""
    name, *settings = text.split()
    pairs = (setting.partition("=") for setting in settings)
    table = beside(recipe.method, name) | {key: toml_value(value) for key, _, value in pairs}
    return recipe.model_copy(update={"method": table, "control": "none", "warmup": 0})


def branches_of(recipe: Recipe, batch: Batch, source: str, names: Sequence[str] = ()) -> Branches:
    """Return where each method keeps tokens of a batch, for each share in SHARES or the method's
    fixed share. A name may have settings, as in `ict score=h`. UserError if a name is unknown."""
    rollouts, stats = batch.rollouts, batch.rollouts.stats
    valid, H1 = rollouts.valid, stats["entropy"]
    tree, groups = prefix_tree(rollouts), len(rollouts.prompts)
    parting = tree.branch.reshape(groups, -1, valid.shape[1]).any(axis=1)
    later = tree.branch & (parting.cumsum(axis=1) > parting).repeat(rollouts.group, axis=0)

    def mean(values: FloatArray | BoolArray, among: BoolArray) -> Interval | None:
        sums = (x.reshape(groups, -1).sum(axis=1) for x in (values * among, among))
        return ratio_interval(*sums) if among.any() else None

    placements: list[Placement] = []
    missing: dict[str, str] = {}
    for text in names or USUAL:
        variant = _variant(recipe, text)
        if absent := [name for name in variant.wanted_stats if name not in stats]:
            missing[text] = why_missing(text, *absent)
            continue
        table = variant.method
        has_share = "keep" in variant.rule.options.model_fields and "keep=" not in text
        for keep in SHARES if has_share else (None,):
            if keep is not None:
                variant = variant.model_copy(update={"method": {**table, "keep": keep}})
            kept = select(variant, with_advantage(variant, batch), 1).kept
            figures = diagnose(rollouts, batch.advantage, kept)
            chosen, ranked = kept[valid], np.argsort(H1[valid], kind="stable")
            share = float(chosen.mean())
            placements.append(
                Placement(
                    method=text,
                    keep=share if keep is None else keep,
                    kept=share,
                    branch_recall=mean(kept, tree.branch),
                    later_recall=mean(kept, later),
                    branch_precision=figures["branch_precision"],
                    kept_prob=mean(stats["prob"], kept),
                    kept_sure=mean(stats["prob"] > SURE, kept),
                    high_low_ratio=figures["high_low_ratio"],
                    entropy_spearman=spearman(chosen.astype(float), H1[valid]),
                    by_entropy=tuple(float(x.mean()) for x in np.array_split(chosen[ranked], 10)),
                )
            )
    shared = tree.alone.argmax(axis=1)[tree.alone.any(axis=1)]
    overall = diagnose(rollouts, batch.advantage, valid)
    return Branches(
        source=source,
        task=recipe.data_name,
        temperature=recipe.temperature,
        group=rollouts.group,
        responses=len(rollouts),
        tokens=int(valid.sum()),
        alone_from=float(np.median(shared) + 1) if len(shared) else None,
        branch_share=overall["branch_share"],
        first_share=1 - float(later[tree.branch].mean()) if tree.branch.any() else None,
        sure=overall["sure"],
        prob=float(stats["prob"][valid].mean()),
        uniqueness=overall.get("uniqueness"),
        uniqueness_entropy_spearman=overall.get("uniqueness_entropy_spearman"),
        placements=tuple(placements),
        missing=missing,
    )
