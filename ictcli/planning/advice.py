"""Checks whether a run fits into memory and, if not, finds settings that make it fit."""

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
"""A recipe key, such as engine.rows, and its new value."""
MAX_CHANGES = 3
"""Maximum number of settings that the advice changes."""


@dataclass(frozen=True)
class MemoryCheck:
    """A run's memory estimate, the memory limit, and a sentence that compares them."""

    estimate: MemoryEstimate | None
    """None if the memory cannot be estimated; `sentence` then says why."""
    sentence: str
    limit: MemoryLimit | None = None
    """None if the limit is unknown."""
    changes: tuple[Change, ...] = ()
    """Changes to the recipe that would make the run fit."""

    @property
    def fits(self) -> bool | None:
        """Whether the run fits; None if the estimate or the limit is unknown."""
        if self.estimate is None or self.limit is None:
            return None
        return self.estimate.peak() <= self.limit.size

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes, each as KEY=VALUE."""
        return tuple(f"{key}={str(value).lower()}" for key, value in self.changes)

    def json(self) -> dict[str, Any]:
        """Return the fields that `--dry-run --json` prints."""
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
    """Estimate a run's memory for prompts of `prompt` tokens and compare it with `limit` (default:
    this machine's). Imports no engine and never raises: if the memory cannot be estimated,
    the returned sentence says why."""
    if find_launch():
        return MemoryCheck(None, "Memory is not estimated for a launch of several processes.")
    try:
        shape = read_shape(recipe.model)
    except UserError as error:
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return MemoryCheck(None, f"The memory estimate needs the model's config.json. {reason}")
    if (shape.bits or recipe.engine.load_in_4bit) and not recipe.adapters:
        sentence = "Quantized weights cannot be trained; adapter.kind=lora trains adapters on them."
        return MemoryCheck(None, sentence)
    limit = limit or memory_limit(recipe.engine)
    estimate = estimate_memory(recipe, shape, prompt)
    if not limit.size:
        return MemoryCheck(estimate, "")
    sizes = f"{_gib(estimate.peak())} at most, and the limit is {_gib(limit.size)} ({limit.name})"
    if estimate.peak() <= limit.size:
        return MemoryCheck(estimate, f"The run fits: {sizes}.", limit)
    changes, peak = remedies(recipe, estimate, limit.size)
    check = MemoryCheck(estimate, f"The run does not fit: {sizes}.", limit, changes)
    advice = f"With {listed(check.settings)} the run needs {_gib(peak)}."
    if peak > limit.size:
        advice = f"Even with {listed(check.settings)} it needs {_gib(peak)}: use a smaller model."
    return replace(check, sentence=f"{check.sentence} {advice}")


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def remedies(
    recipe: Recipe, estimate: MemoryEstimate, limit: float
) -> tuple[tuple[Change, ...], float]:
    """Return the fewest changes, at most `MAX_CHANGES`, that bring a run's peak memory under
    `limit` bytes, and the new peak. Changes that leave the results as they are come first, before
    those that change what is trained. If no changes suffice, return those of the lowest peak."""

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
        for number in range(1, MAX_CHANGES + 1)
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
