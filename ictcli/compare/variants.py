"""Parse the variants to compare: methods with their settings, swept settings, and controls."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from ictcli.algorithm.methods import METHODS, Method, ShareOptions, find_method
from ictcli.errors import UserError
from ictcli.recipe import labelled, toml_value

_PROBLEMS = "all runs train on the same problems in the same order"
_BUDGET = "all runs have the same budget of samples and updates"
_ASKED = "all runs are prompted, sampled and evaluated alike"
FIXED = {
    "model": "all runs start from the same model",
    "seed": "every method has the same seeds",
    **dict.fromkeys(("task", "data", "columns", "hub", "plugins"), _PROBLEMS),
    **dict.fromkeys(("steps", "prompts", "group", "max_tokens", "update"), _BUDGET),
    **dict.fromkeys(("prompt", "sampling", "eval"), _ASKED),
    "reward": "all runs are rewarded and judged alike",
}
"""Recipe keys (or tables of keys) that must not vary, each with the reason, for messages."""
OPTIONS = "ictcli methods lists each method's options"
SIGNAL = "reward.signal"
FREE = {SIGNAL, "sampling.redraw"}
"""Recipe keys that may vary although the other keys of their table must not."""
CONTROLS = {"control": "none", SIGNAL: "true"}
"""Recipe keys that can turn a run into a control, each with its value in a normal run."""


@dataclass(frozen=True)
class Variant:
    """A method with one combination of settings."""

    label: str
    method: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A recipe key and the values to compare, as the user typed them."""

    key: str
    values: tuple[str, ...]

    @property
    def overrides(self) -> list[str]:
        return [f"{self.key}={value}" for value in self.values]


def read_grid(text: str, option: str) -> Grid:
    """Return the grid in text such as `method.keep=0.05,0.1`. UserError if the key cannot vary."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if key not in FREE and (why := FIXED.get(key.split(".")[0])):
        raise UserError(f"{option} cannot vary {key}: {why}.", "make a comparison for each value")
    if key in ("method", "method.name"):
        raise UserError(f"{option} cannot vary {key}: --methods does.", "--methods ict,grpo")
    if not equals or not key or not values.replace(",", "").strip():
        raise UserError(
            f"{option} {text!r} is not of the form KEY=VALUE,VALUE.",
            f"for example: {option} method.keep=0.05,0.1,0.2",
        )
    return Grid(key, read_values(values, key, option))


def read_values(text: str, key: str, option: str) -> tuple[str, ...]:
    """Return the values in text such as `0.05,0.1`, as typed. UserError if there are none."""
    typed = tuple(dict.fromkeys(value.strip() for value in text.split(",") if value.strip()))
    if not typed:
        raise UserError(f"{option} names no {key}.", f"{option} A,B")
    return typed


def numbers_of(overrides: Iterable[str]) -> dict[str, float] | None:
    """Return the number that each override sets; None if any sets something else."""
    values = {override: toml_value(override.partition("=")[2]) for override in overrides}
    numbers = {key: float(v) for key, v in values.items() if type(v) in (int, float)}  # pyright: ignore
    return numbers if len(numbers) == len(values) else None


def variants_of(methods: Sequence[str], sweeps: Sequence[Grid]) -> tuple[Variant, ...]:
    """Return the variants: every method, with its settings if any (`ict score=u*h`), and with every
    combination of the swept settings that it uses. UserError if no method uses a swept key, or if a
    key is set twice."""
    check_keys([sweep.key for sweep in sweeps], "--sweep")
    where = "--methods and --sweep" if sweeps else "--methods"
    variants: list[Variant] = []
    parsed = [_parsed(text) for text in methods]
    for method, settings in parsed:
        grids = [*settings, *(sweep for sweep in sweeps if takes(method, sweep.key))]
        check_keys([grid.key for grid in grids], where)
        variants += _combined(method.name, grids)
    for sweep in sweeps:
        if not any(takes(method, sweep.key) for method, _ in parsed):
            names = ", ".join(method.name for method, _ in parsed)
            raise UserError(f"None of {names} uses {sweep.key}.", OPTIONS)
    return tuple(dict.fromkeys(variants))


def _parsed(text: str) -> tuple[Method, list[Grid]]:
    # a method of a plugin may have spaces in its name
    name, *settings = [text] if text in METHODS else text.split() or [text]
    method, grids = find_method(name), list[Grid]()
    for setting in settings:
        grid = read_grid(setting, "--methods")
        key = f"method.{grid.key}" if grid.key in method.options.model_fields else grid.key
        if not takes(method, key):
            raise UserError(f"{method.name} does not use {grid.key}.", OPTIONS)
        grids.append(Grid(key, grid.values))
    return method, grids


def _combined(method: str, grids: Sequence[Grid]) -> list[Variant]:
    variants: list[Variant] = []
    for overrides in product(*(grid.overrides for grid in grids)):
        settings = dict(override.split("=", 1) for override in overrides)
        controls = [toml_value(settings.pop(key, off)) for key, off in CONTROLS.items()]
        plain = [f"{_short(key)}={value}" for key, value in settings.items()]
        label = labelled(" ".join([method, *plain]), *controls)
        variants.append(Variant(label, method, overrides))
    return variants


def _short(override: str) -> str:
    return override.removeprefix("method.")


def check_keys(keys: Sequence[str], option: str) -> None:
    """Raise UserError if a key is set twice: the runs would not be what their labels say."""
    for key, times in Counter(map(_short, keys)).items():
        if times > 1:
            raise UserError(
                f"{key} is varied twice, by {option}.", "name each key once, with all its values"
            )


def takes(method: Method, key: str) -> bool:
    """Return whether a method uses a recipe key."""
    if key == "warmup":
        return method.dense_warmup
    if key == "keep":
        return issubclass(method.options, ShareOptions)
    if key.startswith("clip."):
        return not method.clips
    if key.startswith("method."):
        return _short(key) in method.options.model_fields
    return True
