"""engine.micro_batch = "auto": as many tokens a pass as the plan says fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ictcli.errors import UserError
from ictcli.planning.machine import Room, device_of, room
from ictcli.planning.peaks import PROMPT_TOKENS, plan
from ictcli.planning.shapes import Shape, read_shape
from ictcli.recipe import Recipe

MARGIN = 0.9
"""Of the limit: what a plan may be wrong by, and an allocator wastes."""


def with_tokens(recipe: Recipe, tokens: int) -> Recipe:
    """The recipe with so many tokens a pass."""
    engine = recipe.engine.model_copy(update={"micro_tokens": tokens, "micro_batch": None})
    return recipe.model_copy(update={"engine": engine})


def largest(recipe: Recipe, shape: Shape, limit: float, prompt: int = PROMPT_TOKENS) -> int:
    """The most tokens a pass whose update peaks below `MARGIN` of the limit, in whole rows of full
    length; one row where even that does not."""
    device = device_of(recipe.engine)
    one = plan(recipe, shape, device=device, prompt=prompt)
    length = one.prompt + recipe.max_tokens

    def fits(rows: int) -> bool:
        tried = plan(with_tokens(recipe, rows * length), shape, device=device, prompt=prompt)
        return tried.peak("updating") <= MARGIN * limit

    least, most = 1, (recipe.update.minibatch or recipe.prompts) * recipe.group
    while least < most:  # the peak never falls with rows
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least * length


def resolved(recipe: Recipe, here: Room, shape: Shape, prompt: int = PROMPT_TOKENS) -> Recipe:
    """The recipe with auto replaced, where the machine says how much there is."""
    if recipe.engine.micro_batch != "auto" or not here.size:
        return recipe
    return with_tokens(recipe, largest(recipe, shape, here.size, prompt))


def choose(
    recipe: Recipe,
    recorded: int | None,
    say: Callable[[str], None],
    here: Room | None = None,
    prompt: int = PROMPT_TOKENS,
) -> dict[str, Any]:
    """What environment.json records of a run's choice: `micro_tokens`, or nothing where the recipe
    leaves no choice. A resumed run keeps what was `recorded`, and so repeats the same bits."""
    if recipe.engine.micro_batch != "auto":
        return {}
    if recorded:
        return {"micro_tokens": recorded}
    here = here or room(recipe.engine)
    try:
        chosen = resolved(recipe, here, read_shape(recipe.model), prompt).engine.micro_tokens
    except UserError as error:
        chosen, why = recipe.engine.micro_tokens, error.message
    else:
        why = f"{here.size / 2**30:.1f} GiB is {here.named}" if here.size else "nothing is known"
    say(f"engine.micro_batch=auto takes {chosen:,} tokens a pass: {why}.")
    return {"micro_tokens": chosen}
