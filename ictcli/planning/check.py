"""What a run would refuse of its recipe and data, found before a model is loaded."""

from __future__ import annotations

import contextlib

from ictcli.errors import UserError
from ictcli.planning.shapes import read_shape
from ictcli.recipe import Recipe
from ictcli.tasks import find_benchmark
from ictcli.tasks.hub import ElsewhereError, files_alone
from ictcli.tasks.prepare import heldout, prepare


def check(recipe: Recipe) -> list[str]:
    """Notes on the data of a recipe. UserError where `train` would refuse it, or its max_tokens
    for the model's context. Data sets of the hub are not opened, and a note says so."""
    notes: list[str] = []
    with files_alone():
        try:
            recipe, task = prepare(recipe)
            heldout(recipe, task)
            notes += task.notes
        except ElsewhereError as error:
            notes.append(f"{error.message.removesuffix('.')} in a dry run: its rows are unchecked.")
            asked = recipe.eval
            if asked.bench is not None:  # which may be a file
                with contextlib.suppress(ElsewhereError):
                    find_benchmark(asked.bench, asked.data, asked.columns, asked.hub)
    try:
        context = read_shape(recipe.model).context
    except UserError:
        return notes  # the plan says why
    if recipe.max_tokens >= context:
        raise UserError(
            f"max_tokens = {recipe.max_tokens} leaves a prompt no room in the model's context of "
            f"{context}.",
            "lower max_tokens, or take a model with a longer context",
        )
    return notes
