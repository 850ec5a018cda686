"""What a recipe, a model or a benchmark needs of the hub, fetched into the libraries' cache."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ictcli.engine import model_files
from ictcli.engine.models import check_reachable, locate
from ictcli.errors import UserError, text_of, unknown
from ictcli.recipe import Recipe, RecipeFile, load_recipe, shipped_recipes
from ictcli.tables.numbers import size_text
from ictcli.tasks.custom import HUB, is_custom
from ictcli.tasks.hub import cache_folder, fetch, quiet
from ictcli.tasks.prepare import task_of
from ictcli.tasks.registry import BENCHMARKS, TASKS, find_benchmark


def is_recipe(name: str) -> bool:
    return name.endswith(".toml") or name in shipped_recipes()


def download(name: str | RecipeFile) -> Iterator[dict[str, str]]:
    """Fetch what a recipe needs, its model, data and benchmarks; or a model, or the data of a
    benchmark or task, by name: kind, name, size and where of each part. What is in the cache stays;
    what was broken off goes on. UserError where it cannot be had."""
    if isinstance(name, RecipeFile):
        recipe = load_recipe(name)
        yield _model(recipe.model)
        yield from _data(recipe.task, _sources(recipe))
    elif name.startswith(HUB):
        fetch(path := name.removeprefix(HUB))
        yield from _data(name, [{"path": path}])
    elif name in BENCHMARKS or name in TASKS:
        yield from _data(name, [find_benchmark(name).source])
    elif "/" in name or name.startswith("builtin:"):
        yield _model(name)
    else:
        known = [*shipped_recipes(), *BENCHMARKS, *TASKS]
        hint = "ictcli recipes ls; a model of the hub is OWNER/NAME, a data set hub:OWNER/NAME"
        raise unknown("recipe and no benchmark", name, known, hint)


def _model(model: str) -> dict[str, str]:
    path = locate(model).path
    check_reachable(path)
    if not Path(path).is_dir():
        try:
            with quiet():
                path = str(model_files.fetch(path))
        except Exception as error:  # no such model, no access, the network
            raise UserError(
                f"The model {path} cannot be fetched: {text_of(error)}.",
                f"look at https://huggingface.co/{path}; the same command goes on where it broke "
                "off",
            ) from error
    return _part("model", model, Path(path))


def _sources(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """Where the problems of a recipe are from, and those of its evaluations."""
    yield task_of(recipe).source
    given = recipe.eval
    if given.bench is not None:
        yield find_benchmark(
            given.bench, given.data, given.columns, given.hub, recipe.columns
        ).source
    if not recipe.data and not is_custom(recipe.task):
        yield find_benchmark(recipe.task).source


def _data(name: str, sources: Iterable[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """The data sets of the hub among these sources, each once; `name` where there is none."""
    paths = dict.fromkeys(source["path"] for source in sources if "path" in source)
    yield from (_part("data", path, cache_folder(path)) for path in paths)
    if not paths:
        yield _part("data", name, None)


def _part(kind: str, name: str, folder: Path | None) -> dict[str, str]:
    files = folder.rglob("*") if folder else ()
    size = size_text(sum(file.stat().st_size for file in files if file.is_file()))
    where = str(folder or "comes with ictcli, or is a file")
    return {"kind": kind, "name": name, "size": size if folder else "-", "where": where}
