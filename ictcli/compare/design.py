"""Which runs a comparison is made of: methods, swept settings, seeds, and tuning before them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from ictcli.algorithm.methods import Method, ShareOptions, find_method
from ictcli.algorithm.shares import beside
from ictcli.errors import UserError
from ictcli.recipe import Recipe, load_recipe, toml_value
from ictcli.runs import is_run
from ictcli.runs.trust import recipe_of
from ictcli.text import quoted, shell_word

TUNING_SEED = 100_000
"""Added to the recipe's seed while tuning, so that no final run repeats what tuning saw."""
STOPPED = "stop-after-warmup"
"""The label of the control that ends with the dense warm-up."""
_PROBLEMS = "all runs train on the same problems in the same order"
_BUDGET = "all runs have the same budget of samples and updates"
_ASKED = "all runs are asked, sampled and evaluated alike"
FIXED = {
    "model": "all runs start from the same model",
    "seed": "every method has the same seeds, which --seeds counts",
    **dict.fromkeys(("task", "data", "columns", "hub", "curriculum", "plugins"), _PROBLEMS),
    **dict.fromkeys(("steps", "prompts", "group", "max_tokens", "update"), _BUDGET),
    **dict.fromkeys(("prompt", "sampling", "eval"), _ASKED),
    "reward": "all runs are rewarded and judged alike",
}
"""Keys that decide what the runs of a comparison have in common, and what that is."""


@dataclass(frozen=True)
class Variant:
    """A method with the swept settings of one column of the table."""

    label: str
    method: str
    overrides: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether its runs end with the dense warm-up (`stopped_variants`)."""
        return self.method == STOPPED


@dataclass(frozen=True)
class RunSpec:
    """One run of a comparison."""

    variant: Variant
    seed: int
    folder: Path
    recipe: Recipe
    trying: str = ""
    """The override that a tuning run tries."""
    chosen: str = ""
    """The override that tuning chose for a final run."""
    untuned: str = ""
    """The key of a final run that tuning is still to choose a value of."""

    @property
    def name(self) -> str:
        which = f"trying {self.trying}" if self.trying else f"seed {self.seed}"
        return f"{self.variant.label}, {which}"


@dataclass(frozen=True)
class Grid:
    """A key of the recipe and the values it takes, as typed."""

    key: str
    values: tuple[str, ...]

    @property
    def overrides(self) -> list[str]:
        return [f"{self.key}={value}" for value in self.values]


@dataclass(frozen=True)
class Design:
    """What is to be compared; `source` is a recipe's name or path."""

    source: str
    overrides: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: int
    folder: Path

    def recipe(self, variant: Variant, seed: int, *extra: str) -> Recipe:
        """The recipe of one run. The recipe's method keeps its options; another starts from its
        defaults at the same share of tokens (see `beside`). Where `temperature` varies, evaluation
        stays at the recipe's. UserError if `method.keep` hides a varied `keep`."""
        base = load_recipe(self.source, self.overrides)
        options = base.method
        varied = {override.partition("=")[0] for override in (*variant.overrides, *extra)}
        if "keep" in options and "keep" in varied:
            raise UserError(
                f"keep cannot vary: the recipe sets method.keep = {options['keep']}, which goes "
                "first.",
                "vary method.keep",
            )
        changes = [*self.overrides]
        method = "grpo" if variant.stops else variant.method
        if method != options["name"]:
            table = beside(options, method).items()
            pairs = ", ".join(f"{key}={quoted(value)}" for key, value in table)
            changes.append(f"method={{{pairs}}}")
        if "temperature" in varied and base.eval.temperature is None:
            changes.append(f"eval.temperature={base.temperature}")
        changes += [*variant.overrides, f"seed={seed}", *extra]
        if variant.stops:
            changes += _stop(load_recipe(self.source, changes))
        return load_recipe(self.source, changes)

    @property
    def swept(self) -> list[str]:
        """Keys that differ between variants by --sweep."""
        overrides = (override for variant in self.variants for override in variant.overrides)
        return list(dict.fromkeys(override.partition("=")[0] for override in overrides))

    @property
    def first_seed(self) -> int:
        return load_recipe(self.source, self.overrides).seed


def read_grid(text: str, option: str) -> Grid:
    """`method.keep=0.05,0.1` as a key and its values."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if why := FIXED.get(key.split(".")[0]):
        raise UserError(f"{option} cannot vary {key}: {why}.", "compare them in two comparisons")
    if key in ("method", "method.name"):
        raise UserError(f"{option} cannot vary {key}: --methods does.", "--methods ict,grpo")
    typed = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not key or not typed:
        raise UserError(
            f"{option} {text!r} is not of the form KEY=VALUE,VALUE.",
            f"for example: {option} method.keep=0.05,0.1,0.2",
        )
    for first, second in combinations(typed, 2):
        if toml_value(first) == toml_value(second):
            raise UserError(
                f"{option} names one value of {key} twice, as {first} and as {second}.",
                "leave one of them out",
            )
    return Grid(key, typed)


def variants_of(methods: Sequence[str], sweeps: Sequence[Grid]) -> tuple[Variant, ...]:
    """Every method, with settings of its own if any (`ict score=u*h`), and every combination of the
    swept settings that matter to it; once, if none does. UserError if a key matters to no method,
    or is set twice."""
    check_keys([sweep.key for sweep in sweeps], "--sweep")
    variants: dict[str, Variant] = {}
    names: list[str] = []
    for text in methods:
        name, *behind = text.split()
        own = [_setting(find_method(name), setting) for setting in behind]
        heeded = [sweep for sweep in sweeps if heeds(find_method(name), sweep.key)]
        check_keys([grid.key for grid in (*own, *heeded)], "--methods and --sweep")
        names.append(name)
        for settings, overrides in _settings_of([*own, *heeded]):
            variants[name + settings] = Variant(name + settings, name, overrides)
    for sweep in sweeps:
        if not any(heeds(find_method(name), sweep.key) for name in names):
            raise UserError(
                f"None of {', '.join(names)} looks at {sweep.key}.",
                "ictcli methods lists each method's options",
            )
    return tuple(variants.values())


def _setting(method: Method, text: str) -> Grid:
    """A setting behind the name of a method, of its options or of the recipe."""
    grid = read_grid(text, "--methods")
    key = f"method.{grid.key}" if grid.key in method.options.model_fields else grid.key
    if not heeds(method, key):
        raise UserError(
            f"{method.name} does not look at {grid.key}.",
            "ictcli methods lists each method's options",
        )
    return Grid(key, grid.values)


def stopped_variants(methods: Sequence[str], sweeps: Sequence[Grid]) -> tuple[Variant, ...]:
    """The control that trains every token for the steps of the warm-up, as grpo does, and ends.

    It is what the methods with a warm-up are without the steps of their own. Once for each
    combination of the swept settings that matter to it. UserError if no method has a warm-up."""
    names = [text.split()[0] for text in methods]
    if not any(find_method(name).dense_warmup for name in names):
        raise UserError(
            f"None of {', '.join(names)} has a dense warm-up to stop after.",
            "--methods ict,grpo,random has two that do",
        )
    grpo = find_method("grpo")
    heeded = [sweep for sweep in sweeps if sweep.key == "warmup" or heeds(grpo, sweep.key)]
    return tuple(
        Variant(STOPPED + settings, STOPPED, overrides)
        for settings, overrides in _settings_of(heeded)
    )


def _stop(recipe: Recipe) -> list[str]:
    """Overrides that end a recipe's run with its warm-up, the learning rate as if it went on."""
    if not 0 < recipe.warmup < recipe.steps:
        raise UserError(
            f"--stop-after-warmup needs a warm-up shorter than the run: warmup is {recipe.warmup} "
            f"and steps is {recipe.steps}.",
            f"warmup={max(recipe.steps // 5, 1)}",
        )
    end = recipe.optimizer.decay_steps or recipe.steps
    return [f"steps={recipe.warmup}", f"optimizer.decay_steps={end}"]


def _settings_of(sweeps: Sequence[Grid]) -> list[tuple[str, tuple[str, ...]]]:
    """Every combination of the swept values: how a label ends, and the overrides."""
    combined: list[tuple[str, tuple[str, ...]]] = []
    for values in product(*(sweep.values for sweep in sweeps)):
        pairs = [(sweep.key, value) for sweep, value in zip(sweeps, values, strict=True)]
        label = "".join(f" {key.removeprefix('method.')}={value}" for key, value in pairs)
        combined.append((label, tuple(f"{key}={value}" for key, value in pairs)))
    return combined


def check_keys(keys: Sequence[str], option: str) -> None:
    """UserError if two grids set the same key: the runs would not be what their labels say."""
    for key, times in Counter(key.removeprefix("method.") for key in keys).items():
        if times > 1:
            raise UserError(
                f"{key} is varied twice, by {option}.", "name each key once, with all its values"
            )


def heeds(method: Method, key: str) -> bool:
    """Whether a setting makes a difference to a method."""
    if key == "warmup":
        return method.dense_warmup
    if key == "keep":
        return issubclass(method.options, ShareOptions)
    if key.startswith("method."):
        return key.removeprefix("method.") in method.options.model_fields
    return True


def run_specs(
    design: Design, tuned: dict[str, str] | None = None, *, grid: Grid | None = None
) -> list[RunSpec]:
    """Every run of a comparison, seed by seed, so that each seed that ends has every variant.
    `tuned` is an override by variant label; other variants are left out. Without it, while a value
    of `grid` is to be chosen, a run that was trained keeps the value in its folder. UserError if
    the folder holds runs of another recipe, or of no value of the grid."""
    seeds = range(design.first_seed, design.first_seed + design.seeds)
    specs = [
        _final_spec(design, variant, seed, tuned, grid)
        for seed in seeds
        for variant in design.variants
        if tuned is None or variant.label in tuned
    ]
    for folder, runs in Counter(str(spec.folder) for spec in specs).items():
        if runs > 1:
            raise UserError(
                f"{runs} runs would go by the name {folder}.",
                "leave out swept values that differ in signs alone",
            )
    return specs


def tuning_specs(design: Design, grid: Grid) -> list[RunSpec]:
    """A run for each variant and value of the grid, with another seed than the final runs and
    evaluated on the held-out problems after theirs."""
    specs: list[RunSpec] = []
    seed = design.first_seed + TUNING_SEED
    for variant in design.variants:
        final = design.recipe(variant, seed).eval
        for override in grid.overrides:
            folder = design.folder / "tune" / f"{slug(variant.label)}-{slug(override)}"
            skip = f"eval.skip={final.skip + final.problems}"
            recipe = design.recipe(variant, seed, override, skip)
            specs.append(_checked(RunSpec(variant, seed, folder, recipe, trying=override)))
    return specs


def _final_spec(
    design: Design, variant: Variant, seed: int, tuned: dict[str, str] | None, grid: Grid | None
) -> RunSpec:
    folder = design.folder / f"{slug(variant.label)}-s{seed}"
    if tuned or grid is None:
        chosen = tuned[variant.label] if tuned else ""
        recipe = design.recipe(variant, seed, *([chosen] if chosen else []))
        return _checked(RunSpec(variant, seed, folder, recipe, chosen=chosen))
    if is_unused(folder):
        return RunSpec(variant, seed, folder, design.recipe(variant, seed), untuned=grid.key)
    trained = recipe_of(folder)
    for override in grid.overrides:
        if design.recipe(variant, seed, override) == trained:
            return RunSpec(variant, seed, folder, trained, chosen=override)
    raise _trained_with(folder, "another recipe than any value of --tune makes")


def _checked(spec: RunSpec) -> RunSpec:
    """The run; UserError if its folder holds one of another recipe."""
    if not is_unused(spec.folder) and recipe_of(spec.folder) != spec.recipe:
        raise _trained_with(spec.folder, "another recipe")
    return spec


def _trained_with(folder: Path, what: str) -> UserError:
    return UserError(
        f"{folder} was trained with {what}.",
        f"--out OTHER takes another folder; rm -r {shell_word(folder)} trains that run again",
    )


def is_unused(folder: Path) -> bool:
    """Whether a folder holds no run, or one that failed before its first evaluation."""
    written = {"recipe.toml", "environment.json", "manifest.json", "failure.json"}
    return not is_run(folder) or {path.name for path in folder.iterdir()} <= {
        *written,
        ".lock",
        "log.txt",
    }


def slug(label: str) -> str:
    """A label as a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", label.replace("=", "")).strip("-")
