"""The code that a run's recipe names, and whether its user has run it on this machine before.

A run folder may be somebody else's, and its recipe may name plugins, a verifier of a file or of a
module, and a model with code of its own. What a user types or trains with is remembered by path and
content, in a file of that user; `read_run` refuses everything else. A recipe and a plugin are read
once: what is judged here is the very object that is used.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, cast

from platformdirs import user_state_path

from ictcli.errors import UserError
from ictcli.files import check_inside, plugins
from ictcli.files.reading import parse_json, read_bytes
from ictcli.recipe import Recipe, RecipeFile, find_recipe, load_recipe, read_recipe

OF_RUNS = ("manifest.json", "environment.json", "metrics.jsonl", "checkpoints")
"""What stands beside a run's recipe, and beside no other."""
PASSED_ON = "ICTCLI_CODE_RUN_HERE"
"""The variable of the environment by which a command tells those that it starts what it knows."""
_session: set[str] = set(os.environ.get(PASSED_ON, "").split())
"""What was remembered in this process: the file may not be writable."""
_all = False


def trust_all() -> None:
    """From now on `read_run` remembers what it would refuse."""
    global _all
    _all = True


def recipe_of(run: Path) -> Recipe:
    """A run's recipe, checked, its plugins loaded. UserError as `read_run` raises it, or if
    anything in it is wrong."""
    return load_recipe(read_run(run))


def read_run(run: Path) -> RecipeFile:
    """A run's recipe, whose code may run. UserError if it names code that was not remembered, or
    has changed since, if it is damaged, or if its folder may not be read (see `check_inside`)."""
    check_inside(run, plain=True)
    try:
        file = read_recipe(run / "recipe.toml")
    except UserError as error:
        raise UserError(error.message, "put it back as it was") from error
    if _all:
        remember(run, file.data)
        return file
    known = _remembered()
    unknown = [name for name, digest in code_of(run, file.data).items() if digest not in known]
    if unknown:
        raise UserError(
            f"{file.path} names code that you have not run here as it is now: "
            f"{', '.join(unknown)}.",
            "read it; --trust runs it, now and later",
        )
    return file


def read_typed(source: str) -> RecipeFile:
    """The recipe of a name or path that was typed; `read_run` where that is a run's."""
    path = find_recipe(source)
    path = path.resolve() if path.is_symlink() else path
    return read_run(path.parent) if is_of_run(path) else read_recipe(source)


def is_of_run(path: Path) -> bool:
    """Whether a file is the recipe of a run's folder, which may be somebody else's."""
    beside = (path.parent / name for name in OF_RUNS)
    return path.name == "recipe.toml" and any(each.exists() for each in beside)


def remember(run: Path, data: Mapping[str, Any]) -> None:
    """The code that the recipe of a run names may run, now and later."""
    new = set(code_of(run, data).values()) - _remembered()
    if not new:
        return
    _session.update(new)
    path = _file()
    with contextlib.suppress(OSError):  # it is asked for again then
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write("".join(f"{digest}\n" for digest in sorted(new)))


def environment() -> dict[str, str]:
    """Of a command that this one starts on a run that it has read."""
    return {**os.environ, PASSED_ON: " ".join(sorted(_session))}


def code_of(run: Path, data: Mapping[str, Any]) -> dict[str, str]:
    """The code that a run's recipe names: SHA-256 of place and content, by file or module. Files
    that are not there cannot run."""
    return {name: hashlib.sha256(what).hexdigest() for name, what in _code(data, run)}


def _code(data: Mapping[str, Any], run: Path) -> Iterator[tuple[str, bytes]]:
    files = plugins.listed(data)
    for place, _ in plugins.verifiers_of(data).values():
        if place.endswith(".py"):
            files.append(place)
        else:
            yield f"the module {place}", f"module {place} ".encode() + _module(place)
    for name in files:
        if path := plugins.find(name, run):
            for file in plugins.imported(path):
                yield str(file), f"file {file} ".encode() + plugins.source(file)
    engine = data.get("engine")
    if isinstance(engine, dict) and cast(dict[str, Any], engine).get("trust_remote_code"):
        yield from _code_of_model(str(data.get("model")), run)


def _module(name: str) -> bytes:
    """Places and contents of the files that importing a module runs, without running them."""
    parts, places, code = name.split("."), None, b""
    for end in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: end + 1]), places)
        if spec is None:
            break
        if spec.origin and (file := Path(spec.origin)).is_file():
            code += f"{file.resolve()} ".encode() + read_bytes(file)
        places = spec.submodule_search_locations
    return code


def _code_of_model(model: str, run: Path) -> Iterator[tuple[str, bytes]]:
    """The code of the model that a run began with, by name, or by place and content if it is a
    folder; and by content what came with the models in the run."""
    folders = (run / "model", run / "adapter")
    for name in dict.fromkeys((model, *(base for folder in folders for base in _bases(folder)))):
        named = Path(name)
        place = str(named.resolve()) if named.is_dir() else name
        code = b"".join(read_bytes(file) for file in _code_files(named))
        yield f"the code of the model {name}", f"model {place} ".encode() + code
    for folder in folders:
        for file in _code_files(folder):
            yield str(file), b"model file " + read_bytes(file)


def _bases(folder: Path) -> list[str]:
    try:
        about: object = parse_json(read_bytes(folder / "adapter_config.json"))
    except (OSError, ValueError):
        return []
    settings = cast(dict[str, object], about) if isinstance(about, dict) else {}
    named = (settings.get(key) for key in ("base_model_name_or_path", "model"))
    return [name for name in named if isinstance(name, str)]


def _code_files(folder: Path) -> list[Path]:
    """Modules of a model, and the configurations that may name modules of other models."""
    files = (*folder.rglob("*.py"), *folder.rglob("*config.json"))
    return sorted(file for file in files if file.is_file())


def _remembered() -> set[str]:
    try:
        return _session | set(_file().read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return _session


def _file() -> Path:
    return user_state_path("ictcli") / "code-run-here"
