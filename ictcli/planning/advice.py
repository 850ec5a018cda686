"""Whether a run fits into memory and, where it does not, the settings that make it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend, on_apple_silicon
from ictcli.errors import UserError
from ictcli.evaluation.evaluate import CHUNK
from ictcli.planning.parts import Plan, plan
from ictcli.planning.shapes import read_shape
from ictcli.recipe import Recipe
from ictcli.settings import EngineSettings

RAM_SHARE = 0.75
"""Of a machine's memory: about what Metal recommends as its working set."""


@dataclass(frozen=True)
class Outlook:
    """A plan, where one can be made, and a sentence on it, or on why there is none."""

    plan: Plan | None
    sentence: str


def look_ahead(recipe: Recipe) -> Outlook | None:
    """What the memory of a run comes to; None where the backend is another than MLX. Imports no
    engine, and never fails: a plan is a courtesy."""
    if choose_backend(recipe.engine.backend) != "mlx":
        return None
    try:
        shape = read_shape(recipe.model)
    except UserError as error:
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return Outlook(None, f"The plan of memory needs the model's config.json. {reason}")
    if shape.bits and not recipe.adapters:
        return Outlook(None, "Packed weights cannot be trained; adapter.kind=lora can be planned.")
    made = plan(recipe, shape, gpu=on_gpu(recipe.engine))
    limit, named = memory_limit(recipe.engine)
    return Outlook(made, verdict(recipe, made, limit, named) if limit else "")


def on_gpu(settings: EngineSettings) -> bool:
    """Whether MLX's device is a GPU; unless told, on Apple silicon."""
    return settings.device in ("gpu", "mps") or (settings.device == "auto" and on_apple_silicon())


def memory_limit(settings: EngineSettings) -> tuple[float, str]:
    """Bytes a run may take, and whose limit that is; 0 where the machine does not say."""
    if settings.memory_limit:
        return settings.memory_limit * 2**30, "engine.memory_limit"
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 0.0, ""
    return RAM_SHARE * total, f"{RAM_SHARE:.0%} of this machine's memory"


def verdict(recipe: Recipe, made: Plan, limit: float, named: str) -> str:
    """Whether it fits and, if not, what would make it."""
    most = f"{_gib(made.peak())} at most, and the limit is {_gib(limit)} ({named})"
    if made.peak() <= limit:
        return f"It fits: {most}."
    changes, better = remedies(recipe, made, limit)
    if not changes:
        return f"It does not fit: {most}. It takes a smaller model."
    told = [_told(change) for change in changes]
    told = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
    fits = better.peak() <= limit
    comes = f"it is {_gib(better.peak())}" + ("" if fits else ": it takes a smaller model")
    return f"It does not fit: {most}. {'With' if fits else 'Even with'} {told} {comes}."


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


Change = tuple[str, str, Any]
"""Table, key and value of a recipe; of the table `model`, what another model would have."""


def remedies(recipe: Recipe, made: Plan, limit: float) -> tuple[list[Change], Plan]:
    """The changes that bring a run under the limit, and the plan with them: first those that change
    no result, then those that change what is trained, and each as little as it takes. Where none
    suffice, those that bring it nearest."""
    ladders = _ladders(recipe, made)

    def tried(changes: list[Change | None]) -> Plan:
        changed, shape = recipe, made.shape
        for table, key, value in filter(None, changes):
            if table == "model":
                shape = shape.packed(value)
                continue
            inner = getattr(changed, table).model_copy(update={key: value})
            changed = changed.model_copy(update={table: inner})
        return plan(changed, shape, gpu=on_gpu(recipe.engine), prompt=made.prompt)

    chosen: list[Change | None] = [None] * len(ladders)
    for i, ladder in enumerate(ladders):
        chosen[i] = ladder[-1]
        if tried(chosen).peak() <= limit:
            break
    enough = max(limit, tried(chosen).peak())
    for i in reversed(range(len(ladders))):  # take back what is not needed
        for milder in ladders[i]:
            rest = [*chosen[:i], milder, *chosen[i + 1 :]]
            if chosen[i] is not None and tried(rest).peak() <= enough:
                chosen = rest
                break
    return [change for change in chosen if change], tried(chosen)


def _ladders(recipe: Recipe, made: Plan) -> list[list[Change | None]]:
    """For each setting, in the order they are tried, what it may be: as it is, then ever less."""
    lora, packed = recipe.adapters is not None, made.shape.bits > 0
    rows = min(recipe.engine.rows, max(recipe.prompts * recipe.group, CHUNK * recipe.eval.n))
    one = made.prompt + recipe.max_tokens
    return [
        [None, ("engine", "gradient_checkpointing", True)],
        [None, *_halves("micro_tokens", recipe.engine.micro_tokens, one)],
        [None, *_halves("rows", rows, recipe.group)],
        [None, *([] if lora else [("adapter", "kind", "lora")])],
        [None, *([] if packed else [("model", "bits", 4)])],
    ]


def _halves(key: str, value: int, least: int) -> Iterator[Change]:
    while (value := value // 2) >= least:
        yield "engine", key, value


def _told(change: Change) -> str:
    table, key, value = change
    if table == "model":
        return f"a {value}-bit model"
    return f"{table}.{key}={str(value).lower()}"
