"""Fixtures of the run folder's tests."""

from pathlib import Path

import pytest

from ictcli.recipe import Recipe, load_recipe


@pytest.fixture
def recipe(tiny_model: Path) -> Recipe:
    return load_recipe("chain", [f"model={tiny_model}", "prompts=2", "group=2"])
