"""Whether finished runs may stand beside new ones: what they began with is there, unchanged."""

from collections.abc import Sequence
from typing import Any

from ictcli.compare.design import RunSpec
from ictcli.compare.folder import OTHER
from ictcli.errors import UserError
from ictcli.recipe import read_recipe
from ictcli.runs import fingerprint
from ictcli.runs.read import read_environment
from ictcli.tasks.prepare import described, heldout, task_of
from ictcli.text import shell_word

PREPARED = {"task", "data", "columns", "hub", "reward", "prompt", "eval", "curriculum"}
"""The settings, beside the seed of `prompt.shots`, that problems come from."""


def check_began(runs: Sequence[RunSpec]) -> None:
    """UserError if the recipe, a verifier's file, the model or the problems of a finished run
    changed since it began: it could not be continued either. Problems are not looked at under
    `prompt.max_tokens`, which takes an engine."""
    problems: dict[tuple[str, int | None], dict[str, Any]] = {}
    models: dict[tuple[str, str], dict[str, str]] = {}
    for spec in runs:
        folder, recipe = spec.folder, spec.recipe
        if not (folder / "summary.json").exists():
            continue
        began = read_environment(folder)
        now: dict[str, Any] = {}
        if began.recipe_sha256:
            file = read_recipe(folder / "recipe.toml").data
            now["recipe"] = fingerprint.of_recipe(file, began)
        if began.model.sha256:
            model = recipe.model, recipe.engine.backend
            if model not in models:
                models[model] = fingerprint.of_model(recipe.model, recipe.engine)
            now |= models[model]
        if began.data.heldout and not recipe.prompt.max_tokens:
            seed = recipe.seed if recipe.prompt.shots else None
            key = recipe.model_dump_json(include=PREPARED), seed
            if key not in problems:
                task = task_of(recipe)
                data = described(task, heldout(recipe, task))
                problems[key] = fingerprint.of_problems(data)
            now |= problems[key]
        try:
            fingerprint.check_same(folder, began, now)
        except UserError as error:
            raise UserError(
                error.message,
                f"put that back; or rm -r {shell_word(folder)} trains the run again; {OTHER}",
            ) from None
