"""Small recipes with an engine on a model of random weights."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ictcli.engine import Engine, build_engine
from ictcli.recipe import Recipe, load_recipe
from ictcli.tasks import Task
from ictcli.tasks.prepare import task_of

SMALL = ("prompts=4", "group=4", "max_tokens=16", "warmup=0", "reward=even", "eval.problems=2")


@pytest.fixture(scope="module")
def make(tiny_model: Path, even: None) -> Callable[..., tuple[Recipe, Engine, Task]]:
    """A recipe with these overrides, a fresh engine for it, and its task."""

    def made(*overrides: str) -> tuple[Recipe, Engine, Task]:
        recipe = load_recipe("chain", [f"model={tiny_model}", *SMALL, *overrides])
        engine = build_engine(recipe.model, recipe.engine, recipe.optimizer)
        return recipe, engine, task_of(recipe)

    return made
