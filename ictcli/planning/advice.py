"""Whether a run fits into memory and, where it does not, the settings that make it fit."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.shape import read_shape
from ictcli.errors import UserError
from ictcli.planning.estimate import PROMPT_TOKENS, MemoryEstimate, estimate_memory
from ictcli.planning.machine import MemoryLimit, device_of, memory_limit
from ictcli.ranks import find_launch
from ictcli.recipe import Recipe
from ictcli.tables.numbers import listed

Change = tuple[str, Any]
"""A key of a recipe, such as engine.rows, and its value."""
MOST = 3
"""Settings of an advice."""


@dataclass(frozen=True)
class MemoryCheck:
    """An estimate compared with a memory limit, and a sentence on both."""

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
        return tuple(f"{key}={str(value).lower()}" for key, value in self.changes)

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
    if find_launch():
        return MemoryCheck(None, "The memory of several processes is not estimated.")
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
    check = MemoryCheck(estimate, f"It does not fit: {sizes}.", limit, changes)
    advice = f"With {listed(check.settings)} it is {_gib(peak)}."
    if peak > limit.size:
        advice = f"Even with {listed(check.settings)} it is {_gib(peak)}: it needs a smaller model."
    return replace(check, sentence=f"{check.sentence} {advice}")


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def remedies(
    recipe: Recipe, estimate: MemoryEstimate, limit: float
) -> tuple[tuple[Change, ...], float]:
    """Return the fewest settings, `MOST` at most, that bring a run under `limit` bytes, and the
    peak with them. Those that change no result come before those that change what is trained.
    Where none suffice: those that come nearest."""

    def halves(key: str, value: int, least: int) -> list[Change]:
        count = max(value // max(least, 1), 1).bit_length() - 1
        return [(key, value >> n) for n in range(1, count + 1)]

    engine, device = recipe.engine, device_of(recipe.engine)
    exact = halves("engine.micro_tokens", engine.micro_tokens, estimate.prompt + recipe.max_tokens)
    exact += halves("engine.rows", engine.rows, recipe.group)
    if not engine.gradient_checkpointing:
        exact.insert(0, ("engine.gradient_checkpointing", True))
    others: list[Change] = []
    lora, pack = ("adapter.kind", "lora"), ("engine.load_in_4bit", True)
    if not recipe.adapters:
        others.append(lora)
    if not estimate.shape.bits and not engine.load_in_4bit:
        if not in_bfloat16(engine.dtype, gpu=device != "cpu"):
            others.append(("engine.dtype", "bfloat16"))
        if device == "cuda" or choose_backend(engine.backend) == "mlx":
            others.append(pack)

    nearest: tuple[tuple[Change, ...], float] = (), estimate.peak()
    choices = [
        changes
        for number in range(1, MOST + 1)
        for changes in combinations(exact + others, number)
        if len(dict(changes)) == number
        and (recipe.adapters or pack not in changes or lora in changes)
    ]
    for changes in sorted(choices, key=lambda changes: changes[-1] in others):
        changed = recipe
        for name, value in changes:
            table, _, key = name.partition(".")
            settings = getattr(changed, table).model_copy(update={key: value})
            changed = changed.model_copy(update={table: settings})
        peak = estimate_memory(changed, estimate.shape, estimate.prompt).peak()
        if peak <= limit:
            return changes, peak
        nearest = min(nearest, (changes, peak), key=lambda choice: choice[1])
    return nearest
