"""The recipe: read from TOML, overridden by `key=value`, and checked before any ML import."""

from ictcli.recipe.load import (
    RecipeFile,
    check,
    find_recipe,
    load_recipe,
    read_recipe,
    recipe_keys,
    recipe_text,
    shipped_recipes,
    shipped_studies,
    table_to_toml,
    to_toml,
    unused_keys,
    validate,
)
from ictcli.recipe.overrides import apply_overrides, toml_value, typed_key
from ictcli.recipe.recipe import Recipe

__all__ = [
    "Recipe",
    "RecipeFile",
    "apply_overrides",
    "check",
    "find_recipe",
    "load_recipe",
    "read_recipe",
    "recipe_keys",
    "recipe_text",
    "shipped_recipes",
    "shipped_studies",
    "table_to_toml",
    "to_toml",
    "toml_value",
    "typed_key",
    "unused_keys",
    "validate",
]
