"""Whether a run fits into memory and, where it does not, the settings that make it fit."""

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.shape import read_shape
from ictcli.engine.workload import memory_model
from ictcli.errors import UserError
from ictcli.planning.estimate import PROMPT_TOKENS, MemoryEstimate, estimate_memory
from ictcli.planning.machine import MemoryLimit, device_of, memory_limit
from ictcli.recipe import Recipe
from ictcli.tables.numbers import listed

Change = tuple[str, Any]
"""A key of a recipe, such as engine.rows, and its value."""
MOST = 3
"""Settings of an advice."""


@dataclass(frozen=True)
class MemoryCheck:
    """An estimate held against a memory limit, and a sentence on both."""

    estimate: MemoryEstimate | None
    """None where the sentence says why there is none."""
    sentence: str
    limit: MemoryLimit | None = None
    """None where it is not known."""
    changes: tuple[Change, ...] = ()
    """Changes to the recipe that would make it fit."""

    @property
    def fits(self) -> bool | None:
        """None where it is not known."""
        if self.estimate is None or self.limit is None:
            return None
        return self.estimate.peak() <= self.limit.size

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes, as KEY=VALUE."""
        return settings_of(self.changes)

    def json(self) -> dict[str, Any]:
        """Return what `--dry-run --json` prints."""
        return {
            "plan": self.estimate.json() if self.estimate else None,
            "fits": self.fits,
            "limit_bytes": round(self.limit.size) if self.limit else None,
            "limit": self.limit.name if self.limit else None,
            "changes": dict(self.changes),
            "sentence": self.sentence,
        }


def check_memory(
    recipe: Recipe, limit: MemoryLimit | None = None, prompt: int = PROMPT_TOKENS
) -> MemoryCheck:
    """Estimate a run's memory for prompts of `prompt` tokens and compare it with `limit`, by
    default this machine's. Imports no engine and does not fail: where the memory is not known, the
    sentence says why."""
    try:
        memory_model(choose_backend(recipe.engine.backend))
    except UserError as error:
        return MemoryCheck(None, error.message)
    try:
        shape = read_shape(recipe.model)
    except UserError as error:
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return MemoryCheck(None, f"The plan of memory needs the model's config.json. {reason}")
    if (shape.bits or recipe.engine.load_in_4bit) and not recipe.adapters:
        sentence = "Packed weights cannot be trained; adapter.kind=lora can be planned."
        return MemoryCheck(None, sentence)
    limit = limit or memory_limit(recipe.engine)
    estimate = estimate_memory(recipe, shape, prompt)
    if not limit.size:
        return MemoryCheck(estimate, "")
    sizes = f"{_gib(estimate.peak())} at most, and the limit is {_gib(limit.size)} ({limit.name})"
    if estimate.peak() <= limit.size:
        return MemoryCheck(estimate, f"It fits: {sizes}.", limit)
    changes, peak = remedies(recipe, estimate, limit.size)
    begin, end = (
        ("With", ".") if peak <= limit.size else ("Even with", ": it takes a smaller model.")
    )
    advice = f"{begin} {listed(settings_of(changes))} it is {_gib(peak)}{end}"
    return MemoryCheck(estimate, f"It does not fit: {sizes}. {advice}", limit, changes)


def settings_of(changes: tuple[Change, ...]) -> tuple[str, ...]:
    """Return changes as KEY=VALUE."""
    return tuple(f"{key}={str(value).lower()}" for key, value in changes)


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def remedies(
    recipe: Recipe, estimate: MemoryEstimate, limit: float
) -> tuple[tuple[Change, ...], float]:
    """Return the fewest settings, `MOST` at most, that bring a run under `limit` bytes, and the
    peak with them. Each is as near to the recipe's as may be, and those that change no result come
    before those that change what is trained. Where none suffice: those that come nearest."""

    def peak(changes: tuple[Change, ...]) -> float:
        changed = recipe
        for name, value in changes:
            table, _, key = name.partition(".")
            settings = getattr(changed, table).model_copy(update={key: value})
            changed = changed.model_copy(update={table: settings})
        return estimate_memory(changed, estimate.shape, estimate.prompt).peak()

    def halves(key: str, value: int, least: int) -> list[Change]:
        count = max(value // max(least, 1), 1).bit_length() - 1
        return [(key, value >> n) for n in range(1, count + 1)]

    engine, trains_all = recipe.engine, recipe.adapters is None
    device = device_of(engine)
    packs = device in memory_model(choose_backend(engine.backend)).PACKS_ON
    packed = estimate.shape.bits > 0 or engine.load_in_4bit
    rounds = in_bfloat16(engine.dtype, gpu=device != "cpu")
    row = estimate.prompt + recipe.max_tokens
    lora, pack = ("adapter.kind", "lora"), ("engine.load_in_4bit", True)
    rounded = ("engine.dtype", "bfloat16")
    ladders: list[list[Change]] = [
        [("engine.gradient_checkpointing", True)] * (not engine.gradient_checkpointing),
        halves("engine.micro_tokens", engine.micro_tokens, row),
        halves("engine.rows", engine.rows, recipe.group),
        [lora] * trains_all,
        [rounded] * (not packed and not rounds),
        [pack] * (packs and not packed),
    ]
    ladders = [ladder for ladder in ladders if ladder]
    choices = {
        tuple(ladder[-1] for ladder in choice): choice
        for n in range(1, MOST + 1)
        for choice in combinations(ladders, n)
    }
    if trains_all:  # packed weights cannot be trained
        choices = {most: c for most, c in choices.items() if pack not in most or lora in most}
    order = sorted(choices, key=lambda most: bool({lora, rounded, pack} & {*most}))
    for most in order:
        if peak(most) <= limit:
            changes = next(each for each in product(*choices[most]) if peak(each) <= limit)
            return changes, peak(changes)
    nearest = min(order, key=peak)
    return nearest, peak(nearest)
