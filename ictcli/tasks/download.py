"""What a recipe, a model or a benchmark needs of the hub, fetched into the libraries' cache."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ictcli.engine.models import check_reachable, locate
from ictcli.errors import UserError, nearest, text_of
from ictcli.recipe import Recipe, RecipeFile, load_recipe, shipped_recipes
from ictcli.tasks.custom import HUB, is_custom
from ictcli.tasks.hub import cache_folder, fetch, quiet
from ictcli.tasks.prepare import task_of
from ictcli.tasks.registry import BENCHMARKS, TASKS, find_benchmark

FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken")
"""Of a model; its pickled weights and its code are not among them."""


@dataclass(frozen=True)
class Part:
    """Something that is on this machine now."""

    kind: str
    """model or data."""
    name: str
    bytes: int
    path: Path | None
    """None where there is nothing to fetch."""


def is_recipe(name: str) -> bool:
    return name.endswith(".toml") or name in shipped_recipes()


def download(name: str | RecipeFile) -> Iterator[Part]:
    """Fetch what a recipe needs, its model, data and benchmarks; or a model, or the data of a
    benchmark or task, by name. What is in the cache stays; what was broken off goes on. UserError
    where it cannot be had."""
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
        raise UserError(
            f"There is no recipe and no benchmark {name!r}{nearest(name, known)}.",
            "ictcli recipes ls; a model of the hub is OWNER/NAME, a data set hub:OWNER/NAME",
        )


def _model(model: str) -> Part:
    path = locate(model).path
    check_reachable(path)
    if not Path(path).is_dir():
        import huggingface_hub

        download = cast(Any, huggingface_hub).snapshot_download
        try:
            with quiet():
                path = download(path, allow_patterns=list(FILES), ignore_patterns=["*/*"])
        except Exception as error:  # no such model, no access, the network
            raise UserError(
                f"The model {path} cannot be fetched: {text_of(error)}.",
                f"look at https://huggingface.co/{path}; the same command goes on where it broke "
                "off",
            ) from error
    return Part("model", model, _size(Path(path)), Path(path))


def _sources(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """Where the problems of a recipe are from, and those of its evaluations."""
    yield task_of(recipe).source
    given = recipe.eval
    if given.bench is not None:
        yield find_benchmark(
            given.bench, given.data, given.columns, given.hub, recipe.columns
        ).source
    if recipe.data is None and not is_custom(recipe.task):
        yield find_benchmark(recipe.task).source


def _data(name: str, sources: Iterable[dict[str, Any]]) -> Iterator[Part]:
    """The data sets of the hub among these sources, each once; `name` where there is none."""
    paths = dict.fromkeys(source["path"] for source in sources if "path" in source)
    for path in paths:
        folder = cache_folder(path)
        yield Part("data", path, _size(folder), folder)
    if not paths:
        yield Part("data", name, 0, None)


def _size(folder: Path) -> int:
    """Bytes of the files below a folder, behind links too."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
