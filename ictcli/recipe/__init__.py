"""The recipe: read from TOML, overridden by `key=value`, and checked before any ML import."""

from ictcli.recipe.load import (
    apply_override,
    check,
    find_recipe,
    load_recipe,
    recipe_keys,
    recipe_text,
    shipped_recipes,
    to_toml,
    toml_value,
    unused_keys,
    validate,
)
from ictcli.recipe.recipe import Recipe

__all__ = [
    "Recipe",
    "apply_override",
    "check",
    "find_recipe",
    "load_recipe",
    "recipe_keys",
    "recipe_text",
    "shipped_recipes",
    "to_toml",
    "toml_value",
    "unused_keys",
    "validate",
]
