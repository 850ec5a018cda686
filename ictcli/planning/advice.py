"""Whether a run fits into memory and, where it does not, the settings that make it fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.shape import read_shape
from ictcli.engine.workload import memory_model
from ictcli.errors import UserError
from ictcli.evaluation.samples import CHUNK
from ictcli.planning.estimate import (
    PROMPT_TOKENS,
    MemoryEstimate,
    estimate_memory,
    resolve_micro_batch,
)
from ictcli.planning.machine import MemoryLimit, device_of, memory_limit
from ictcli.recipe import Recipe
from ictcli.tables.numbers import listed

Change = tuple[str, str, Any]
"""Table, key and value of a recipe."""


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

    def json(self) -> dict[str, Any]:
        """As `--dry-run --json` prints it."""
        return {
            "plan": self.estimate.json() if self.estimate else None,
            "fits": self.fits,
            "limit_bytes": round(self.limit.size) if self.limit else None,
            "limit": self.limit.name if self.limit else None,
            "changes": {f"{table}.{key}": value for table, key, value in self.changes},
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
    recipe = resolve_micro_batch(recipe, limit, shape, prompt)
    estimate = estimate_memory(recipe, shape, prompt)
    if not limit.size:
        return MemoryCheck(estimate, "")
    changes, better = remedies(recipe, estimate, limit.size)
    sentence = verdict(estimate, limit, changes, better)
    return MemoryCheck(estimate, sentence, limit, tuple(changes))


def verdict(
    estimate: MemoryEstimate, limit: MemoryLimit, changes: list[Change], better: MemoryEstimate
) -> str:
    """Whether it fits and, if not, what would make it fit."""
    sizes = f"{_gib(estimate.peak())} at most, and the limit is {_gib(limit.size)} ({limit.name})"
    if estimate.peak() <= limit.size:
        return f"It fits: {sizes}."
    if not changes:
        return f"It does not fit: {sizes}. It takes a smaller model."
    settings = [f"{table}.{key}={str(value).lower()}" for table, key, value in changes]
    fits = better.peak() <= limit.size
    begin, end = ("With", ".") if fits else ("Even with", ": it takes a smaller model.")
    return f"It does not fit: {sizes}. {begin} {listed(settings)} it is {_gib(better.peak())}{end}"


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def remedies(
    recipe: Recipe, estimate: MemoryEstimate, limit: float
) -> tuple[list[Change], MemoryEstimate]:
    """The changes that bring a run under `limit` bytes, and the estimate with them.

    Settings that change no result are tried before those that change what is trained, and each is
    changed as little as needed. Where none suffice: those that bring the run nearest.
    """
    if estimate.peak() <= limit:
        return [], estimate
    ladders = _ladders(recipe, estimate)

    def with_changes(changes: list[Change | None]) -> MemoryEstimate:
        changed = recipe
        for table, key, value in filter(None, changes):
            inner = getattr(changed, table).model_copy(update={key: value})
            changed = changed.model_copy(update={table: inner})
        return estimate_memory(changed, estimate.shape, estimate.prompt)

    chosen: list[Change | None] = [None] * len(ladders)
    for i, ladder in enumerate(ladders):
        chosen[i] = ladder[-1]
        if with_changes(chosen).peak() <= limit:
            break
    enough = max(limit, with_changes(chosen).peak())
    for i in reversed(range(len(ladders))):  # take back what is not needed
        for milder in ladders[i]:
            changes = [*chosen[:i], milder, *chosen[i + 1 :]]
            if chosen[i] is not None and with_changes(changes).peak() <= enough:
                chosen = changes
                break
    return [change for change in chosen if change], with_changes(chosen)


def _ladders(recipe: Recipe, estimate: MemoryEstimate) -> list[list[Change | None]]:
    """The settings in the order they are tried, each as it is (None), then ever smaller."""
    engine, lora = recipe.engine, recipe.adapters is not None
    packed = estimate.shape.bits > 0 or engine.load_in_4bit
    device = device_of(engine)
    packs = device in memory_model(choose_backend(engine.backend)).PACKS_ON
    rounds = in_bfloat16(engine.dtype, gpu=device != "cpu")
    rows = min(engine.rows, max(recipe.prompts * recipe.group, CHUNK * recipe.eval.n))
    row = estimate.prompt + recipe.max_tokens
    return [
        [None, ("engine", "gradient_checkpointing", True)],
        [None, *_halves("micro_tokens", engine.micro_tokens, row)],
        [None, *_halves("rows", rows, recipe.group)],
        [None, *([] if lora else [("adapter", "kind", "lora")])],
        [None, *([] if packed or rounds else [("engine", "dtype", "bfloat16")])],
        [None, *([("engine", "load_in_4bit", True)] if packs and not packed else [])],
    ]


def _halves(key: str, value: int, least: int) -> Iterator[Change]:
    while (value := value // 2) >= least:
        yield "engine", key, value
