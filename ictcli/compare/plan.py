"""What `ictcli compare` will do, checked before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.differences import Contrast
from ictcli.compare.folder import notes_on_report
from ictcli.compare.tuning import RUNS, Tuning
from ictcli.compare.variants import (
    SIGNAL,
    Variant,
    check_keys,
    read_grid,
    read_values,
    variants_of,
)
from ictcli.errors import UserError, nearest
from ictcli.planning.preflight import check_trackers
from ictcli.recipe import load_recipe
from ictcli.recipe.keys import typed_key
from ictcli.rewards import find_verifier
from ictcli.runs.trust import read_typed
from ictcli.tables.numbers import counted, listed
from ictcli.tasks.prepare import task_of

BASELINE = "grpo"
"""Without `--baseline`."""

FEW_SEEDS = {
    1: "One seed does not show how runs vary: --seeds 3 does.",
    2: "Two seeds hardly show how runs vary, so intervals are very wide; a third seed often halves "
    "them.",
}
"""The note for this number of seeds, before and after."""


class CompareOptions(NamedTuple):
    """The options of `ictcli compare` that decide which runs there are and how they are
    compared."""

    methods: tuple[str, ...]
    seeds: int = 3
    sweep: tuple[str, ...] = ()
    models: str | None = None
    """Base models, with commas between; without, the recipe's own."""
    tune: str | None = None
    tune_runs: int = RUNS
    baseline: str | None = None
    contrast: str | None = None
    """Pairs A:B, with commas between."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The runs of a comparison: those of `tuning`, which try values (`tries`) for the `final`
    ones."""

    design: Design
    baseline: str
    contrasts: Sequence[Contrast]
    tuning: Tuning | None
    tries: Sequence[RunSpec]
    final: Sequence[RunSpec]
    notes: Sequence[str]

    @property
    def runs(self) -> list[RunSpec]:
        return [*self.tries, *self.final]


def plan_of(
    source: str, overrides: Sequence[str], options: CompareOptions, folder: Path
) -> ComparisonPlan:
    """Return the plan of the comparison on the recipe `source`. UserError if a setting is wrong, if
    the folder holds other runs, or if no problems are left to tune on."""
    file = read_typed(source)
    if "method" not in file.data:
        file = replace(file, data={**file.data, "method": options.methods[0].split()[0]})
    recipe = load_recipe(file, overrides)  # plugins add methods
    verifiers = (recipe.reward.verifier, recipe.eval.verifier, *recipe.reward.functions)
    for name in filter(None, verifiers):
        find_verifier(name)  # it is there, and may run
    if recipe.label != recipe.rule.name:
        raise UserError(
            f"The recipe trains a control, {recipe.label}: every method would be one.",
            f"--methods 'ict,ict control=permuted' or --sweep {SIGNAL}=true,random names one",
        )
    swept = [read_grid(text, "--sweep") for text in options.sweep]
    variants = variants_of(options.methods, swept)
    models = read_values(options.models, "model", "--models") if options.models is not None else ()
    if models and any(typed_key(each) == "model" for each in overrides):
        raise UserError("model is set twice, by --models too.", "leave one of them out")
    if not folder.exists():
        check_trackers(recipe)
    design = Design(file, tuple(overrides), variants, options.seeds, folder, models)
    grid = read_grid(options.tune, "--tune") if options.tune else None
    if grid:
        varied = {each.partition("=")[0] for variant in variants for each in variant.overrides}
        check_keys([*varied, grid.key], "--methods, --sweep and --tune")
    tuning = Tuning(design, grid, options.tune_runs) if grid else None
    tries = tuning.first if tuning else []
    final = run_specs(design, untuned=grid.key if grid else "")
    notes = notes_on_report(folder, options.seeds)
    baseline, contrasts, note = contrasts_of(variants, options)
    notes += note
    if models and options.seeds % len(models):
        even = -(-options.seeds // len(models)) * len(models)
        notes.append(
            f"{len(models)} base models do not share {counted(options.seeds, 'seed')} evenly: "
            f"--seeds {even} would"
        )
    rates = {spec.recipe.lr for spec in final}
    tunes_rate = grid is not None and grid.key == "lr"
    if len({each.method for each in variants}) > 1 and len(rates) == 1 and not tunes_rate:
        notes.append(
            f"every method trains at lr={rates.pop():g}, which may suit some better than others: "
            "--tune lr=V,V,V chooses a rate for each"
        )
    if len(variants) > 1 and options.seeds in FEW_SEEDS:
        notes.append(FEW_SEEDS[options.seeds])
    notes += check_problems(tries)
    return ComparisonPlan(design, baseline, contrasts, tuning, tries, final, notes)


def contrasts_of(
    variants: Sequence[Variant], options: CompareOptions
) -> tuple[str, list[Contrast], list[str]]:
    """Return the label of the baseline, the contrasts to test, and a note where the default
    baseline is not among the methods. UserError if a name is not a variant's."""
    labels = [each.label for each in variants]

    def labelled(name: str, option: str) -> str:
        """Return the label of a variant named by it, or by its method where no other has that."""
        fits = [each.label for each in variants if name in (each.label, each.method)]
        if name in fits or len(fits) == 1:
            return name if name in fits else fits[0]
        which = f"which is {listed(fits)}" if fits else "which is not one of the methods"
        raise UserError(
            f"{option} names {name!r}{nearest(name, labels)}, {which}.",
            f"{option} takes labels: {listed(labels)}",
        )

    notes: list[str] = []
    if options.baseline is not None:
        base = labelled(options.baseline, "--baseline")
    else:
        of_method = [each.label for each in variants if each.method == BASELINE]
        base = (of_method or labels)[0]
        if not of_method and options.contrast is None and len(labels) > 1:
            notes = [f"{BASELINE} is not among the methods: {base} is the baseline"]
    if options.contrast is None:
        return base, [Contrast(label, base) for label in labels if label != base], notes
    contrasts: list[Contrast] = []
    for text in filter(None, map(str.strip, options.contrast.split(","))):
        pair = [part.strip() for part in text.split(":")]
        if len(pair) != 2:
            raise UserError(f"--contrast {text!r} is not of the form A:B.", "--contrast ict:random")
        first, second = (labelled(name, "--contrast") for name in pair)
        if first == second:
            raise UserError(f"--contrast {text!r} compares {first} with itself.", "name two")
        contrasts.append(Contrast(first, second))
    if not contrasts:
        raise UserError("--contrast names no pair.", "--contrast ict:random")
    return base, list(dict.fromkeys(contrasts)), notes


def check_problems(tries: Sequence[RunSpec]) -> list[str]:
    """Check, before anything is trained, that held-out problems are left to tune on besides those
    of the final runs; gives a note where they are fewer. UserError where there are none."""
    notes: list[str] = []
    keys = {"task", "data", "eval", "reward", "plugins"}
    recipes = {repr(spec.recipe.model_dump(include=keys)): spec.recipe for spec in tries}
    for recipe in recipes.values():
        skip, wanted = recipe.eval.skip, recipe.eval.problems
        available = len(task_of(recipe).heldout(skip + wanted)) - (skip - wanted)
        problems = counted(max(available, 0), "problem")
        held = f"{recipe.eval.bench or recipe.data_name} holds out {problems}"
        if available < 2:
            raise UserError(
                f"{held}: too few to tune on some and evaluate on others.",
                "leave --tune out, or take a larger data set",
            )
        if available <= wanted:
            raise UserError(
                f"{held}, and the final runs ask for {wanted}: none is left to tune on.",
                f"eval.problems={available // 2} leaves as many for tuning",
            )
        if available < 2 * wanted:
            notes.append(
                f"{held}: tuning is judged by {counted(available - wanted, 'problem')}, "
                f"the final runs by {wanted}"
            )
    return list(dict.fromkeys(notes))
