"""The columns of a comparison: methods, settings of their own, swept settings, and the control that
stops."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ictcli.algorithm.methods import METHODS, Method, ShareOptions, find_method
from ictcli.errors import UserError
from ictcli.recipe import toml_value

STOPPED = "stop-after-warmup"
"""The label of the control that ends with the dense warm-up."""
_PROBLEMS = "all runs train on the same problems in the same order"
_BUDGET = "all runs have the same budget of samples and updates"
_ASKED = "all runs are asked, sampled and evaluated alike"
FIXED = {
    "model": "all runs start from the same model",
    "seed": "every method has the same seeds",
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
class Grid:
    """A key of the recipe and the values it takes, as typed."""

    key: str
    values: tuple[str, ...]

    @property
    def overrides(self) -> list[str]:
        return [f"{self.key}={value}" for value in self.values]


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


def read_methods(text: str, option: str) -> tuple[str, ...]:
    """The methods of `ict,ict score=u*h`, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UserError(f"{option} names no method.", "ictcli methods lists them")
    return names


def variants_of(
    methods: Sequence[str], sweeps: Sequence[Grid], option: str = "--methods"
) -> tuple[Variant, ...]:
    """Every method, with settings of its own if any (`ict score=u*h`), and every combination of the
    swept settings that matter to it; once, if none does. UserError if a key matters to no method,
    or is set twice."""
    check_keys([sweep.key for sweep in sweeps], "--sweep")
    variants: dict[str, Variant] = {}
    names: list[str] = []
    for text in methods:
        name, behind = _parted(text)
        method = find_method(name)
        own = [_setting(method, setting, option) for setting in behind]
        heeded = [sweep for sweep in sweeps if heeds(method, sweep.key)]
        check_keys(
            [grid.key for grid in (*own, *heeded)], f"{option} and --sweep" if sweeps else option
        )
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


def _parted(text: str) -> tuple[str, list[str]]:
    """The method of `ict score=u*h`, and the settings behind it."""
    if text in METHODS:  # a plugin's name may hold anything
        return text, []
    name, *behind = text.split() or [text]
    return name, behind


def _setting(method: Method, text: str, option: str) -> Grid:
    """A setting behind the name of a method, of its options or of the recipe."""
    grid = read_grid(text, option)
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
    combination of settings, swept or a method's own, that matter to it and leave a warm-up.
    UserError if no method has one."""
    grpo = find_method("grpo")
    controls: dict[str, Variant] = {}
    for text in methods:
        name, behind = _parted(text)
        method = find_method(name)
        if method.dense_warmup:
            own = [_setting(method, setting, "--methods") for setting in behind]
            heeded = [
                grid for grid in (*own, *sweeps) if grid.key == "warmup" or heeds(grpo, grid.key)
            ]
            for settings, overrides in _settings_of(heeded):
                if settings_of(STOPPED + settings).get("warmup") != 0:
                    controls[STOPPED + settings] = Variant(STOPPED + settings, STOPPED, overrides)
    if not controls:
        names = ", ".join(_parted(text)[0] for text in methods)
        raise UserError(
            f"None of {names} has a dense warm-up to stop after.",
            "--methods ict,grpo,random has two that do",
        )
    return tuple(controls.values())


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


def method_of(variant: str) -> str:
    """The method in a variant's label."""
    return variant.split(" ")[0]


def settings_of(variant: str) -> dict[str, object]:
    """The settings in a variant's label."""
    pairs = (setting.partition("=") for setting in variant.split(" ")[1:])
    return {key: toml_value(text) for key, _, text in pairs}


def counterpart(variant: str, method: str, variants: Sequence[str]) -> str | None:
    """The variant of `method` that shares most swept settings with this one and has no others."""
    settings = settings_of(variant).items()
    fits = [v for v in variants if method_of(v) == method and settings_of(v).items() <= settings]
    return max(fits, key=lambda v: len(settings_of(v)), default=None)
