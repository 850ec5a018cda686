"""Read the recipe of a run, which may be a stranger's. From then on the process only runs code that
its user named or that has run on this machine before (`ictcli.files.gate`)."""

from dataclasses import replace
from pathlib import Path

from ictcli.errors import UserError
from ictcli.files import check_base, check_inside, gate
from ictcli.recipe import RecipeFile, find_recipe, is_of_run, read_recipe


def read_run(run: Path) -> RecipeFile:
    """Return a run's recipe. UserError if it is damaged, if the run links to files elsewhere, or if
    the recipe's model is a folder in the run."""
    gate.ask()
    check_inside(run, plain=True)
    try:
        file = read_recipe(run / "recipe.toml")
    except UserError as error:
        raise UserError(error.message, "restore the file") from error
    check_base(run, str(file.data.get("model", "")))
    return replace(file, own=False)


def read_typed(source: str) -> RecipeFile:
    """Return the recipe of a name or path that the user typed; `read_run` reads that of a run."""
    path = find_recipe(source)
    path = path.resolve() if path.is_symlink() else path
    return read_run(path.parent) if is_of_run(path) else read_recipe(source)
