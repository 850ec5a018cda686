"""Plan the runs of `ictcli compare`, and check their settings before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.differences import Contrast
from ictcli.compare.folder import notes_on_report
from ictcli.compare.tuning import RUNS, Tuning
from ictcli.compare.variants import SIGNAL, Variant, check_keys, read_grid, read_values, variants_of
from ictcli.errors import UserError, nearest
from ictcli.planning.preflight import check_trackers
from ictcli.recipe import load_recipe
from ictcli.recipe.keys import typed_key
from ictcli.rewards import find_verifier
from ictcli.runs.trust import read_typed
from ictcli.tables.numbers import counted, listed
from ictcli.tasks.prepare import task_of

BASELINE = "grpo"
"""The method that is the baseline if `--baseline` is not given."""

FEW_SEEDS = {
    1: "One seed does not show how runs vary: --seeds 3 does.",
    2: "Two seeds hardly show how runs vary, so intervals are very wide; a third seed often halves "
    "them.",
}
"""The note shown before training and in the report, by number of seeds."""


class CompareOptions(NamedTuple):
    """The options of `ictcli compare` that decide the runs and the contrasts."""

    methods: tuple[str, ...]
    seeds: int = 3
    sweep: tuple[str, ...] = ()
    models: str | None = None
    """Base models separated by commas; None: the recipe's model."""
    tune: str | None = None
    tune_runs: int = RUNS
    baseline: str | None = None
    contrast: str | None = None
    """Pairs A:B separated by commas; None: every variant with the baseline."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The runs of a comparison: `tries` are the first tuning runs, `final` the runs to compare."""

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
    """Return the plan of a comparison with the recipe `source`. UserError if a setting is wrong, if
    the folder holds other runs, or if no problems are left for tuning."""
    file = read_typed(source)
    if "method" not in file.data:
        file = replace(file, data={**file.data, "method": options.methods[0].split()[0]})
    recipe = load_recipe(file, overrides)  # plugins add methods
    verifiers = (recipe.reward.verifier, recipe.eval.verifier, *recipe.reward.functions)
    for name in filter(None, verifiers):
        find_verifier(name)  # UserError if there is none
    if recipe.label != recipe.rule.name:
        raise UserError(
            f"The recipe trains a control, {recipe.label}: every method would be a control.",
            f"--methods 'ict,ict control=permuted' or --sweep {SIGNAL}=true,random adds a control",
        )
    swept = [read_grid(text, "--sweep") for text in options.sweep]
    variants = variants_of(options.methods, swept)
    models = read_values(options.models, "model", "--models") if options.models is not None else ()
    if models and any(typed_key(override) == "model" for override in overrides):
        raise UserError("model is set twice: by model= and by --models.", "leave one of them out")
    if not folder.exists():
        check_trackers(recipe)
    design = Design(file, tuple(overrides), variants, options.seeds, folder, models)
    grid = read_grid(options.tune, "--tune") if options.tune else None
    if grid:
        varied = {o.partition("=")[0] for variant in variants for o in variant.overrides}
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
            f"{counted(options.seeds, 'seed')} cannot be divided evenly among {len(models)} base "
            f"models: --seeds {even} can"
        )
    rates = {spec.recipe.lr for spec in final}
    tunes_rate = grid is not None and grid.key == "lr"
    if len({v.method for v in variants}) > 1 and len(rates) == 1 and not tunes_rate:
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
    """Return the label of the baseline, the contrasts to test, and a note if the default baseline
    is not among the methods. UserError if an option names no variant."""
    labels = [variant.label for variant in variants]

    def labelled(name: str, option: str) -> str:
        """Return the label `name`, or the label of the only variant that has the method `name`."""
        fits = [v.label for v in variants if name in (v.label, v.method)]
        if name in fits or len(fits) == 1:
            return name if name in fits else fits[0]
        which = f"which fits {listed(fits)}" if fits else "which is not one of the methods"
        raise UserError(
            f"{option} names {name!r}{nearest(name, labels)}, {which}.",
            f"{option} takes these labels: {listed(labels)}",
        )

    notes: list[str] = []
    if options.baseline is not None:
        base = labelled(options.baseline, "--baseline")
    else:
        of_method = [variant.label for variant in variants if variant.method == BASELINE]
        base = (of_method or labels)[0]
        if not of_method and options.contrast is None and len(labels) > 1:
            notes = [f"{BASELINE} is not among the methods, so {base} is the baseline"]
    if options.contrast is None:
        return base, [Contrast(label, base) for label in labels if label != base], notes
    contrasts: list[Contrast] = []
    for text in filter(None, map(str.strip, options.contrast.split(","))):
        pair = [part.strip() for part in text.split(":")]
        if len(pair) != 2:
            raise UserError(f"--contrast {text!r} is not of the form A:B.", "--contrast ict:random")
        first, second = (labelled(name, "--contrast") for name in pair)
        if first == second:
            raise UserError(f"--contrast {text!r} compares {first} with itself.", "--contrast A:B")
        contrasts.append(Contrast(first, second))
    if not contrasts:
        raise UserError("--contrast names no pair.", "--contrast ict:random")
    return base, list(dict.fromkeys(contrasts)), notes


def check_problems(tries: Sequence[RunSpec]) -> list[str]:
    """Return notes on data sets that have fewer held-out problems for tuning than for the final
    runs. UserError if none are left for tuning."""
    notes: list[str] = []
    keys = {"task", "data", "eval", "reward", "plugins"}
    recipes = {repr(spec.recipe.model_dump(include=keys)): spec.recipe for spec in tries}
    for recipe in recipes.values():
        skip, wanted = recipe.eval.skip, recipe.eval.problems
        available = len(task_of(recipe).heldout(skip + wanted)) - (skip - wanted)
        problems = counted(max(available, 0), "problem")
        supply = f"{recipe.eval.bench or recipe.data_name} holds out {problems}"
        if available < 2:
            raise UserError(
                f"{supply}: too few to tune on some and evaluate on others.",
                "leave --tune out, or use a larger data set",
            )
        if available <= wanted:
            raise UserError(
                f"{supply}, and the final runs use {wanted}: none is left to tune on.",
                f"eval.problems={available // 2} leaves as many for tuning",
            )
        if available < 2 * wanted:
            notes.append(
                f"{supply}: tuning is evaluated on {counted(available - wanted, 'problem')}, "
                f"the final runs on {wanted}"
            )
    return list(dict.fromkeys(notes))
