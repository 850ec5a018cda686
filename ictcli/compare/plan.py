"""What `ictcli compare` will do, checked before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ictcli.compare.design import Design, RunSpec, run_specs, tuning_specs
from ictcli.compare.folder import check_report
from ictcli.compare.study import CompareOptions
from ictcli.compare.tuning import check_problems, earlier_choice
from ictcli.compare.variants import Grid, check_keys, read_grid, stopped_variants, variants_of
from ictcli.recipe import load_recipe
from ictcli.runs.trust import read_typed


@dataclass(frozen=True)
class ComparisonPlan:
    """The runs of one comparison: `tries` choose a value of `grid` for the `final` ones."""

    design: Design
    baseline: str
    grid: Grid | None
    tries: Sequence[RunSpec]
    final: Sequence[RunSpec]
    notes: Sequence[str]

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
    load_recipe(file, overrides)  # plugins add methods
    swept = [read_grid(text, "--sweep") for text in options.sweep]
    variants = variants_of(options.methods, swept)
    if options.stop_after_warmup:
        variants += stopped_variants(options.methods, swept)
    design = Design(file, tuple(overrides), variants, options.seeds, folder)
    grid = read_grid(options.tune, "--tune") if options.tune else None
    if grid:
        check_keys([*design.swept, grid.key], "--methods, --sweep and --tune")
    tries = tuning_specs(design, grid) if grid else []
    chosen = earlier_choice(tries, variants) if grid else None
    final = run_specs(design, chosen, grid=grid)
    check_report(folder, {each.label for each in variants}, {spec.seed for spec in final})
    notes = [
        f"{spec.folder} was trained with {spec.chosen}: should tuning choose another value, the "
        "comparison needs another --out"
        for spec in final
        if spec.chosen and chosen is None
    ][:1]
    baseline = options.baseline
    if not any(baseline in (each.label, each.method) for each in variants):
        notes.append(f"the baseline {baseline} is not among the methods: {variants[0].label} is")
    return ComparisonPlan(design, baseline, grid, tries, final, [*notes, *check_problems(tries)])
