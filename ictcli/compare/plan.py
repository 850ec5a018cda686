"""What `ictcli compare` will do, checked before anything is trained: its options, a study's file
and the plan of each comparison.

A study is one comparison on several recipes, as a file; `ictcli compare study` runs the one that
ships.

| path below the study's folder | is |
|---|---|
| RECIPE/ | the comparison on that recipe: see `ictcli.compare.folder` |
| runs.csv | a row for each run of each: see `run.run_rows` |
| report.html, report.md | what all of them found, side by side |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.folder import Looks, check_report, looks_of
from ictcli.compare.tuning import RUNS, Tuning
from ictcli.compare.variants import (
    SIGNAL,
    check_keys,
    read_grid,
    read_values,
    stopped_variants,
    variants_of,
)
from ictcli.engine.shape import ModelShape, known_shape
from ictcli.errors import UserError, nearest
from ictcli.files.reading import parse_toml
from ictcli.planning.preflight import check_trackers
from ictcli.recipe import find_recipe, is_of_run, load_recipe, shipped_studies
from ictcli.recipe.load import recipe_text, validate
from ictcli.recipe.tables import Table
from ictcli.runs.trust import read_typed
from ictcli.tables.numbers import counted, listed
from ictcli.tasks.prepare import named_verifiers, task_of

BASELINE = "grpo"
"""Without `--baseline`; among no methods it is no error."""

FEW_SEEDS = {
    1: "One seed says nothing of how another would turn out: --seeds 3 does.",
    2: "Two seeds hardly show how runs vary: intervals over seeds are very wide for that reason, "
    "and a third often halves them. Added after a look, it is judged more "
    "strictly.",
}
"""What to say of so many, before and after."""


class CompareOptions(Table):
    """The options of `ictcli compare` that decide which runs it is made of."""

    methods: tuple[str, ...] = Field(min_length=1, strict=False)
    seeds: int = Field(default=3, ge=1)
    sweep: tuple[str, ...] = Field(default=(), strict=False)
    models: str | Mapping[str, str] | None = None
    """Base models, with commas between, in a study by recipe too; without, the recipe's own."""
    rewards: str | None = None
    """Values of `reward.signal`, with commas between."""
    tune: str | None = None
    tune_runs: int = Field(default=RUNS, ge=1)
    planned_seeds: int | None = Field(default=None, ge=1)
    baseline: str = BASELINE
    stop_after_warmup: bool = False
    cost_of: str | None = None
    """A model at whose cost runs are reckoned."""

    def models_of(self, recipe: str) -> tuple[str, ...]:
        """The base models of a recipe; none, where they are its own."""
        named = self.models
        if isinstance(named, Mapping):
            named = named.get(find_recipe(recipe).stem)
        return () if named is None else read_values(named, "model", "--models")


class Study(CompareOptions):
    """Recipes to compare methods on, all with the same options."""

    recipes: tuple[str, ...] = Field(min_length=1, strict=False)
    settings: tuple[str, ...] = Field(default=(), strict=False)
    """Overrides, KEY=VALUE, of every recipe."""


def read_study(source: str) -> Study | None:
    """The study of this name or path; None if it is something else, a recipe say, or in a run's
    folder, where none belongs. UserError if anything in it is wrong."""
    path = shipped_studies().get(source, Path(source))
    if path.suffix != ".toml" or not path.is_file() or is_of_run(path):
        return None
    try:
        data = parse_toml(recipe_text(path))
    except ValueError:
        return None  # the recipe's reader says so
    if "recipes" not in data:
        return None
    study = validate(Study, data, str(path), hint="ictcli recipes show study")
    beside = [str(path.parent / n) if n.endswith(".toml") else n for n in study.recipes]
    study = study.model_copy(update={"recipes": tuple(beside)})
    names = [find_recipe(name).stem for name in study.recipes]
    named = study.models if isinstance(study.models, Mapping) else dict[str, str]()
    if other := next((name for name in named if name not in names), None):
        raise UserError(
            f"{path} names models of {other}, which is not among its recipes.", f"{names[0]} is"
        )
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{path} names {twice} twice.", "name each recipe once")
    return study


@dataclass(frozen=True)
class ComparisonPlan:
    """The runs of one comparison: those of `tuning`, `tries` to begin with, choose a value for the
    `final` ones."""

    design: Design
    baseline: str
    tuning: Tuning | None
    tries: Sequence[RunSpec]
    final: Sequence[RunSpec]
    notes: Sequence[str]
    looks: Looks
    cost_of: Mapping[str, ModelShape] = field(default_factory=dict[str, ModelShape])
    """By name, the model at whose cost runs are reckoned; empty without one."""

    @property
    def folder(self) -> Path:
        return self.design.folder

    @property
    def runs(self) -> list[RunSpec]:
        return [*self.tries, *self.final]


def plan_of(
    source: str, overrides: Sequence[str], options: CompareOptions, folder: Path
) -> ComparisonPlan:
    """The plan of the comparison on the recipe `source`. UserError if a setting is wrong, if the
    folder holds other runs or a larger report, or if no problems are left to tune on."""
    file = read_typed(source)
    recipe = load_recipe(file, overrides)  # plugins add methods
    named_verifiers(recipe)
    if recipe.label != recipe.rule.name:
        raise UserError(
            f"The recipe trains a control, {recipe.label}: every method would be one.",
            "--methods 'ict,ict control=permuted' or --rewards true,random names one beside others",
        )
    swept = [read_grid(text, "--sweep") for text in options.sweep]
    if options.rewards is not None:
        swept.append(read_grid(f"{SIGNAL}={options.rewards}", "--rewards"))
    variants = variants_of(options.methods, swept)
    if options.stop_after_warmup:
        variants += stopped_variants(options.methods, swept, recipe.warmup)
    models = options.models_of(source)
    if models and any(each.partition("=")[0] == "model" for each in overrides):
        raise UserError("model is set twice, by --models too.", "leave one of them out")
    if not folder.exists():
        check_trackers(recipe)
    design = Design(file, tuple(overrides), variants, options.seeds, folder, models)
    grid = read_grid(options.tune, "--tune") if options.tune else None
    if grid:
        check_keys([*design.swept, grid.key], "--methods, --sweep and --tune")
    tuning = Tuning(design, grid, options.tune_runs) if grid else None
    tries = tuning.first if tuning else []
    chosen = tuning.earlier() if tuning else None
    final = run_specs(design, chosen, grid=grid)
    check_report(folder, {each.label for each in variants}, {spec.seed for spec in final})
    notes = [
        f"{spec.folder} was trained with {spec.chosen}: should tuning choose another value, the "
        "comparison needs another --out"
        for spec in final
        if spec.chosen and spec.variant.label not in (chosen or {})
    ][:1]
    base = options.baseline
    if not any(base in (each.label, each.method) for each in variants):
        if base != BASELINE:
            known = [each.label for each in variants]
            raise UserError(
                f"The baseline {base!r}{nearest(base, known)} is none of the methods.",
                f"--baseline takes one of: {listed(known)}",
            )
        notes.append(f"the baseline {base} is not among the methods: {variants[0].label} is")
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
            f"every method trains at lr={rates.pop():g}, and another may suit one better: --tune "
            "lr=V,V,V chooses a rate for each"
        )
    looks = looks_of(folder, options.seeds, options.planned_seeds)
    if options.planned_seeds not in (None, looks.planned) and len(looks.seeds) > 1:
        notes.append(f"the first look planned {counted(looks.planned, 'seed')}, which stands")
    if len(variants) > 1 and (most := max(looks.planned, options.seeds)) in FEW_SEEDS:
        notes.append(FEW_SEEDS[most])
    notes += check_problems(tries)
    cost_of = {Path(name).name: known_shape(name)} if (name := options.cost_of) else {}
    return ComparisonPlan(design, base, tuning, tries, final, notes, looks, cost_of)


def check_problems(tries: Sequence[RunSpec]) -> list[str]:
    """Check, before anything is trained, that held-out problems are left to tune on beside those of
    the final runs; gives a note where they are fewer. UserError where there are none."""
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
                f"{held}: too few to tune on some and be judged by others.",
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
