"""The recipe: read from TOML, overridden by `key=value`, and checked before any ML import."""

from ictcli.recipe.files import find_recipe as find_recipe
from ictcli.recipe.files import is_of_run as is_of_run
from ictcli.recipe.files import shipped_recipes as shipped_recipes
from ictcli.recipe.keys import apply_overrides as apply_overrides
from ictcli.recipe.keys import toml_value as toml_value
from ictcli.recipe.keys import typed_key as typed_key
from ictcli.recipe.load import RecipeFile as RecipeFile
from ictcli.recipe.load import check as check
from ictcli.recipe.load import load_recipe as load_recipe
from ictcli.recipe.load import read_recipe as read_recipe
from ictcli.recipe.load import recipe_keys as recipe_keys
from ictcli.recipe.load import recipe_text as recipe_text
from ictcli.recipe.load import table_to_toml as table_to_toml
from ictcli.recipe.load import to_toml as to_toml
from ictcli.recipe.load import unused_keys as unused_keys
from ictcli.recipe.load import validate as validate
from ictcli.recipe.recipe import Recipe as Recipe
from ictcli.recipe.recipe import data_name as data_name
from ictcli.recipe.recipe import labelled as labelled
