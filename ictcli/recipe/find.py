"""Finding a recipe or a study: by the path of a file, or by the name of one that is shipped."""

from pathlib import Path

from ictcli.errors import UserError, nearest
from ictcli.rows import is_file_name
from ictcli.text import shell_word


def shipped_recipes() -> dict[str, Path]:
    """The paths of the recipes that come with ictcli, by name."""
    return _shipped("")


def shipped_studies() -> dict[str, Path]:
    """The paths of the studies that come with ictcli, by name: see `ictcli.compare.plan`."""
    return _shipped("studies")


def _shipped(place: str) -> dict[str, Path]:
    package = Path(__file__).parent.parent
    folder = package / "recipes"
    if not folder.is_dir():  # editable install: next to the package
        folder = package.parent / "recipes"
    return {path.stem: path for path in sorted((folder / place).glob("*.toml"))}


def find_recipe(source: str) -> Path:
    """The path of a recipe file, or of a shipped recipe or study by its name. UserError if there is
    none."""
    if "=" in source and not Path(source).is_file():
        raise UserError(
            f"{source} is a setting, and no recipe stands before it.",
            f"ictcli train RECIPE {shell_word(source)}; ictcli recipes ls lists them",
        )
    if is_file_name(source):
        raise UserError(
            f"{source} is data, and no recipe.", f"ictcli train RECIPE task={shell_word(source)}"
        )
    if source.endswith(".toml") or "/" in source:
        path = Path(source)
        if not path.is_file():
            raise UserError(f"There is no recipe file {source}.", "ictcli recipes ls")
        return path
    shipped = shipped_recipes() | shipped_studies()
    if source not in shipped:
        raise UserError(
            f"There is no recipe {source!r}{nearest(source, sorted(shipped))}.",
            "ictcli recipes ls, or give the path of a .toml file",
        )
    return shipped[source]
