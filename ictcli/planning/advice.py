"""Whether a run fits into memory and, where it does not, the settings that make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.errors import UserError
from ictcli.evaluation.evaluate import CHUNK
from ictcli.planning import auto
from ictcli.planning.machine import Room, device_of, room
from ictcli.planning.peaks import PROMPT_TOKENS, Plan, plan
from ictcli.planning.shapes import read_shape
from ictcli.recipe import Recipe

Change = tuple[str, str, Any]
"""Table, key and value of a recipe."""


@dataclass(frozen=True)
class Outlook:
    """A plan, where one can be made, what there is room for, and a sentence on both, or on why
    there is no plan."""

    plan: Plan | None
    sentence: str
    room: Room | None = None
    changes: tuple[Change, ...] = ()
    """Of the recipe's keys, that would make it fit."""

    @property
    def fits(self) -> bool | None:
        """None where it cannot be said."""
        if self.plan is None or self.room is None or not self.room.size:
            return None
        return self.plan.peak() <= self.room.size

    def json(self) -> dict[str, Any]:
        """As `--dry-run --json` gives it."""
        known = self.room if self.room and self.room.size else None
        return {
            "plan": self.plan.json() if self.plan else None,
            "fits": self.fits,
            "limit_bytes": round(known.size) if known else None,
            "limit": known.named if known else None,
            "changes": {f"{table}.{key}": value for table, key, value in self.changes},
            "sentence": self.sentence,
        }


def look_ahead(
    recipe: Recipe, memory: float = 0.0, here: Room | None = None, prompt: int = PROMPT_TOKENS
) -> Outlook | None:
    """What the memory of a run comes to, on a machine of `memory` GiB, in the room that is `here`,
    or else on this machine, with prompts of `prompt` tokens; None where the backend is not ours.
    Imports no engine, and never fails: a plan is a courtesy."""
    if choose_backend(recipe.engine.backend) not in ("mlx", "torch"):
        return None
    try:
        shape = read_shape(recipe.model)
    except UserError as error:
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return Outlook(None, f"The plan of memory needs the model's config.json. {reason}")
    if (shape.bits or recipe.engine.load_in_4bit) and not recipe.adapters:
        return Outlook(None, "Packed weights cannot be trained; adapter.kind=lora can be planned.")
    here = here or room(recipe.engine, memory)
    recipe = auto.resolved(recipe, here, shape, prompt)
    made = plan(recipe, shape, device=device_of(recipe.engine), prompt=prompt)
    if not here.size:
        return Outlook(made, "")
    changes, better = remedies(recipe, made, here.size)
    sentence = verdict(made, here, changes, better)
    return Outlook(made, sentence, here, tuple(changes))


def verdict(made: Plan, here: Room, changes: list[Change], better: Plan) -> str:
    """Whether it fits and, if not, what would make it."""
    most = f"{_gib(made.peak())} at most, and the limit is {_gib(here.size)} ({here.named})"
    if made.peak() <= here.size:
        return f"It fits: {most}."
    if not changes:
        return f"It does not fit: {most}. It takes a smaller model."
    told = [_told(change) for change in changes]
    told = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
    fits = better.peak() <= here.size
    comes = f"it is {_gib(better.peak())}" + ("" if fits else ": it takes a smaller model")
    return f"It does not fit: {most}. {'With' if fits else 'Even with'} {told} {comes}."


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def remedies(recipe: Recipe, made: Plan, limit: float) -> tuple[list[Change], Plan]:
    """The changes that bring a run under the limit, and the plan with them: first those that change
    no result, then those that change what is trained, and each as little as it takes. Where none
    suffice, those that bring it nearest."""
    if made.peak() <= limit:
        return [], made
    ladders, device = _ladders(recipe, made), device_of(recipe.engine)

    def tried(changes: list[Change | None]) -> Plan:
        changed = recipe
        for table, key, value in filter(None, changes):
            inner = getattr(changed, table).model_copy(update={key: value})
            changed = changed.model_copy(update={table: inner})
        return plan(changed, made.shape, device=device, prompt=made.prompt)

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
    lora = recipe.adapters is not None
    packed = made.shape.bits > 0 or recipe.engine.load_in_4bit
    packs = choose_backend(recipe.engine.backend) == "mlx" or device_of(recipe.engine) == "cuda"
    rows = min(recipe.engine.rows, max(recipe.prompts * recipe.group, CHUNK * recipe.eval.n))
    one = made.prompt + recipe.max_tokens
    return [
        [None, ("engine", "gradient_checkpointing", True)],
        [None, *_halves("micro_tokens", recipe.engine.micro_tokens, one)],
        [None, *_halves("rows", rows, recipe.group)],
        [None, *([] if lora else [("adapter", "kind", "lora")])],
        [None, *([("engine", "load_in_4bit", True)] if packs and not packed else [])],
    ]


def _halves(key: str, value: int, least: int) -> Iterator[Change]:
    while (value := value // 2) >= least:
        yield "engine", key, value


def _told(change: Change) -> str:
    table, key, value = change
    return f"{table}.{key}={str(value).lower()}"
