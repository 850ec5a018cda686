"""The runs of a comparison: final runs of every variant and seed, and tuning runs before them."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ictcli.algorithm.methods import beside
from ictcli.compare.variants import Variant
from ictcli.errors import UserError
from ictcli.files.origin import difference
from ictcli.recipe import Recipe, RecipeFile, load_recipe
from ictcli.runs import is_run
from ictcli.runs.trust import read_run
from ictcli.text import quoted, shell_word

TUNING_SEED = 100_000
"""Added to the recipe's seed in tuning runs, so that no final run has the same seed."""


@dataclass(frozen=True)
class RunSpec:
    variant: Variant
    seed: int
    folder: Path
    recipe: Recipe
    trying: str = ""
    """The override that this run tries; empty in a final run."""
    chosen: str = ""
    untuned: str = ""
    """The recipe key whose value tuning has yet to choose; empty if there is none."""

    @property
    def name(self) -> str:
        which = f"{self.trying}, " * bool(self.trying) + f"seed {self.seed}"
        return f"{self.variant.label}, {which}"

    def with_threads(self, threads: int | None) -> "RunSpec":
        """Return the run with another number of threads; None keeps the recipe's."""
        return replace(self, recipe=self.recipe.with_engine(threads=threads)) if threads else self


@dataclass(frozen=True)
class Design:
    """The variants and seeds to compare. `source` is a recipe's content, or its name or path."""

    source: RecipeFile | str
    overrides: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: int
    folder: Path
    models: tuple[str, ...] = ()
    """Base models, assigned to the seeds in turn. Empty: the recipe's model."""

    def recipe(self, variant: Variant, seed: int, *extra: str) -> Recipe:
        """Return the recipe of one run. The recipe's own method keeps its options; another method
        has its defaults, with the same share of tokens (see `beside`). A varied `temperature` does
        not affect evaluations. UserError if `method.keep` would override a varied `keep`."""
        base = load_recipe(self.source, self.overrides)
        options = base.method
        varied = {override.partition("=")[0] for override in (*variant.overrides, *extra)}
        if "keep" in options and "keep" in varied:
            raise UserError(
                f"keep cannot vary: the recipe sets method.keep = {options['keep']}, which takes "
                "precedence.",
                "vary method.keep",
            )
        changes = [*self.overrides]
        if (method := variant.method) != options["name"]:
            pairs = (f"{key}={quoted(value)}" for key, value in beside(options, method).items())
            changes.append(f"method={{{', '.join(pairs)}}}")
        if "temperature" in varied and base.eval.temperature is None:
            changes.append(f"eval.temperature={base.temperature}")
        changes += [*variant.overrides, f"seed={seed}", *extra]
        if self.models:
            model = self.models[(seed - base.seed) % len(self.models)]
            changes.append(f"model={quoted(model)}")
        return load_recipe(self.source, changes)

    @property
    def first_seed(self) -> int:
        return load_recipe(self.source, self.overrides).seed


def run_specs(
    design: Design, tuned: dict[str, str] | None = None, *, untuned: str = ""
) -> list[RunSpec]:
    """Return the final runs of a comparison, ordered by seed. `tuned` holds the chosen override by
    variant label; variants without one are left out. `untuned` is a key that has yet to be tuned.
    UserError if a run's folder holds a run of another recipe."""
    first = design.first_seed
    specs = [
        _final_spec(design, variant, seed, (tuned or {}).get(variant.label, ""), untuned)
        for seed in range(first, first + design.seeds)
        for variant in design.variants
        if tuned is None or variant.label in tuned
    ]
    for folder, runs in Counter(str(spec.folder) for spec in specs).items():
        if runs > 1:
            raise UserError(
                f"{runs} runs would share the folder {folder}.",
                "leave out swept values that differ only in punctuation",
            )
    return specs


def tuning_spec(design: Design, variant: Variant, override: str, number: int) -> RunSpec:
    """Return tuning run `number` (from 0) of a variant with an override. Its seed is not used by a
    final run, and it is evaluated on the held-out problems that follow those of the final runs."""
    seed = design.first_seed + TUNING_SEED + number
    final = design.recipe(variant, seed).eval
    name = f"{slug(variant.label)}-{slug(override)}" + f"-s{seed}" * (number > 0)
    recipe = design.recipe(variant, seed, override, f"eval.skip={final.skip + final.problems}")
    folder = design.folder / "tune" / name
    return _checked(RunSpec(variant, seed, folder, recipe, trying=override))


def _final_spec(design: Design, variant: Variant, seed: int, chosen: str, untuned: str) -> RunSpec:
    folder = design.folder / f"{slug(variant.label)}-s{seed}"
    recipe = design.recipe(variant, seed, *([chosen] if chosen else []))
    spec = RunSpec(variant, seed, folder, recipe, chosen=chosen, untuned=untuned)
    return spec if untuned else _checked(spec)


def _checked(spec: RunSpec) -> RunSpec:
    """Return the run. UserError if its folder holds a run of another recipe."""
    if is_unused(spec.folder):
        return spec
    if differs := _differing(spec.recipe, load_recipe(read_run(spec.folder))):
        raise UserError(
            f"{spec.folder} was trained with another recipe: {differs}.",
            f"--out OTHER uses another folder; or remove the run: rm -r {shell_word(spec.folder)}",
        )
    return spec


def _differing(recipe: Recipe, trained: Recipe) -> str | None:
    """Return how two recipes differ, as a phrase; None if they do not. The model's path may
    differ: `finished.check_began` compares its checksum."""
    if Path(recipe.model).is_absolute() and Path(trained.model).is_absolute():
        trained = trained.model_copy(update={"model": recipe.model})
    return difference(trained.model_dump(mode="json"), recipe.model_dump(mode="json"))


def is_unused(folder: Path) -> bool:
    """Return whether a folder holds no run, or a run that failed before its first evaluation."""
    written = {"recipe.toml", "environment.json", "manifest.json", "failure.json"}
    written |= {".lock", "log.txt"}
    return not is_run(folder) or {path.name for path in folder.iterdir()} <= written


def slug(label: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", label.replace("=", "")).strip("-")
