"""The code that a run's recipe names, and whether its user has run it on this machine before.

A run folder may be somebody else's, and its recipe may name plugins, a verifier of a file or of a
module, and a model with code of its own. What a user types or trains with is remembered by path and
content, in a file of that user; `check_code` refuses everything else.
"""

import contextlib
import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from platformdirs import user_state_path

from ictcli.errors import UserError
from ictcli.files import check_inside
from ictcli.recipe import Recipe, load_recipe, plugins
from ictcli.runs.read import read_bytes

OF_RUNS = ("manifest.json", "environment.json", "metrics.jsonl", "checkpoints")
"""What stands beside a run's recipe, and beside no other."""
_session: set[str] = set()
"""What was remembered in this process: the file may not be writable."""
_all = False


def trust_all() -> None:
    """From now on `check_code` remembers what it would refuse."""
    global _all
    _all = True


def recipe_of(run: Path) -> Recipe:
    """A run's recipe, checked, its plugins loaded. UserError if anything in it is wrong, or its
    code may not run (see `check_code`)."""
    check_code(run)
    return load_recipe(run / "recipe.toml")


def check_recipe(source: str) -> None:
    """`check_code` where a recipe that was typed is that of a run's folder."""
    if is_of_run(Path(source)):
        check_code(Path(source).parent)


def is_of_run(path: Path) -> bool:
    """Whether a file is the recipe of a run's folder, which may be somebody else's."""
    beside = (path.parent / name for name in OF_RUNS)
    return path.name == "recipe.toml" and any(each.exists() for each in beside)


def check_code(run: Path) -> None:
    """UserError if the run's recipe names code that was not remembered, or has changed since, or
    its folder may not be read (see `check_inside`)."""
    check_inside(run, plain=True)
    if _all:
        remember(run)
        return
    known = _remembered()
    unknown = [name for name, digest in code_of(run).items() if digest not in known]
    if unknown:
        raise UserError(
            f"{run / 'recipe.toml'} names code that you have not run here as it is now: "
            f"{', '.join(unknown)}.",
            "read it; --trust runs it, now and later",
        )


def remember(run: Path) -> None:
    """The code that the run's recipe names may run, now and later."""
    new = set(code_of(run).values()) - _remembered()
    if not new:
        return
    _session.update(new)
    path = _file()
    with contextlib.suppress(OSError):  # it is asked for again then
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write("".join(f"{digest}\n" for digest in sorted(new)))


def code_of(run: Path) -> dict[str, str]:
    """The code that a run's recipe names: SHA-256 of place and content, by file or module. Files
    that are not there cannot run, and a recipe that cannot be read names none."""
    try:
        data = tomllib.loads(read_bytes(run / "recipe.toml").decode())
    except (OSError, ValueError):
        return {}
    return {name: hashlib.sha256(what).hexdigest() for name, what in _code(data, run)}


def _code(data: dict[str, Any], run: Path) -> Iterator[tuple[str, bytes]]:
    listed: Any = data.get("plugins", [])
    names = cast(list[object], listed) if isinstance(listed, list) else [listed]
    files = [str(name) for name in names]
    reward = data.get("reward")
    verifier = cast(dict[str, Any], reward).get("verifier") if isinstance(reward, dict) else reward
    if isinstance(verifier, str) and ":" in verifier:
        place = verifier.rpartition(":")[0]
        if place.endswith(".py"):
            files.append(place)
        else:
            yield f"the module {place}", f"module {place}".encode()
    for name in files:
        if path := plugins.find(name, run):
            yield str(path), f"file {path} ".encode() + path.read_bytes()
    engine = data.get("engine")
    if isinstance(engine, dict) and cast(dict[str, Any], engine).get("trust_remote_code"):
        yield from _code_of_model(str(data.get("model")), run)


def _code_of_model(model: str, run: Path) -> Iterator[tuple[str, bytes]]:
    """The code of the model that a run began with, by name, or by place and content if it is a
    folder; and by content what came with the models in the run."""
    named = Path(model)
    place = str(named.resolve()) if named.is_dir() else model
    code = b"".join(file.read_bytes() for file in _code_files(named))
    yield f"the code of the model {model}", f"model {place} ".encode() + code
    for folder in (run / "model", run / "adapter"):
        for file in _code_files(folder):
            yield str(file), b"model file " + file.read_bytes()


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
