"""The recipe: read from TOML, overridden by `key=value`, and checked before any ML import."""

from ictcli.recipe.load import (
    check,
    find_recipe,
    load_recipe,
    recipe_keys,
    recipe_text,
    shipped_recipes,
    shipped_studies,
    to_toml,
    unused_keys,
    validate,
    with_steps,
)
from ictcli.recipe.overrides import apply_overrides, toml_value, typed_key
from ictcli.recipe.recipe import Recipe

__all__ = [
    "Recipe",
    "apply_overrides",
    "check",
    "find_recipe",
    "load_recipe",
    "recipe_keys",
    "recipe_text",
    "shipped_recipes",
    "shipped_studies",
    "to_toml",
    "toml_value",
    "typed_key",
    "unused_keys",
    "validate",
    "with_steps",
]
