"""Plugins: Python files that register methods, verifiers, tasks or benchmarks.

A recipe lists them under `plugins`. They run with the user's rights, like any script, and can
import their neighbours. Each file is read once in a process: what was judged is what runs.
"""

import ast
import contextlib
import importlib.util
import sys
import traceback
import zlib
from collections.abc import Mapping
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files.reading import read_bytes

_PREFIX = "ictcli_plugin_"
_loaded: dict[Path, str] = {}
folders: list[str] = []
"""Where loaded plugins lie: appended to `sys.path`, unless they were there already."""
sources: dict[Path, bytes] = {}
"""The files read so far; see `source`."""


def source(path: Path) -> bytes:
    """What a file held when this process, or that which started it as a worker, first read it."""
    if path not in sources:
        sources[path] = read_bytes(path)
    return sources[path]


class _Loader(SourceFileLoader):
    """Runs `source`, and neither reads nor writes the compiled files beside it, which may be of
    another source."""

    def get_data(self, path: str) -> bytes:
        return source(Path(path))

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError


def _finder(place: str) -> FileFinder:
    """Of modules below plugins, and not below what the user's own path holds there."""
    above = [entry for entry in sys.path if entry and Path(place).is_relative_to(entry)]
    if max(above, key=len, default="") not in folders:
        raise ImportError
    return FileFinder(place, (_Loader, SOURCE_SUFFIXES))


sys.path_hooks.insert(0, _finder)


def listed(data: Mapping[str, Any]) -> list[str]:
    """The names under `plugins` in a recipe's table, which may be one."""
    names: object = data.get("plugins", [])
    return list(map(str, cast(list[object], names))) if isinstance(names, list) else [str(names)]


def verifiers_of(data: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The file or module, and the function, of each verifier of the user's own that a recipe names,
    by the table that names it, reward or eval, or, of `reward.functions`, by its own name."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("reward", "eval"):
        table: object = data.get(name)
        verifier = cast(dict[str, object], table).get("verifier") if type(table) is dict else table
        place, _, function = verifier.rpartition(":") if isinstance(verifier, str) else ("", "", "")
        if place:
            found[name] = place, function
    table = data.get("reward")
    more = cast(dict[str, Any], table).get("functions") if type(table) is dict else ()
    for name in map(str, cast(list[object], more) if isinstance(more, list | tuple) else [more]):
        place, _, function = name.rpartition(":")
        if place:
            found[name] = place, function
    return found


def find(name: str, base: Path | None = None) -> Path | None:
    """The absolute path of a plugin file, if there is one. A relative path is relative to the
    working directory or else to `base`, the recipe's folder."""
    places = (Path(name), (base or Path()) / name)
    return next((place.resolve() for place in places if place.is_file()), None)


def imported(path: Path) -> list[Path]:
    """A plugin file and its neighbours that it imports by statement, and that these import."""
    waiting, found = [path], dict[Path, None]()
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        names: set[str] = set()
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(source(file))):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names.add(node.module)
        for name in sorted({name.partition(".")[0] for name in names}):
            beside = path.parent / name
            files = (beside.with_name(f"{name}.py"), *beside.rglob("*.py"))
            waiting += [each for each in files if each.is_file()]
    return list(found)


def load(name: str, base: Path | None = None) -> Path:
    """Run a plugin file (see `find`), unless it already ran, and return its absolute path.
    UserError if there is no such file, or it fails."""
    path = find(name, base)
    if path is None:
        raise UserError(f"There is no plugin file {name}.", "plugins are paths of .py files")
    if path in _loaded:
        return path
    module_name = f"{_PREFIX}{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if path.suffix not in SOURCE_SUFFIXES:
        raise UserError(f"{path} is not a Python file.", "plugins are paths of .py files")
    loader = _Loader(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    module = importlib.util.module_from_spec(cast(Any, spec))
    sys.modules[module_name] = module
    if str(path.parent) not in sys.path:  # it can import its neighbours, like a script
        folders.append(str(path.parent))
        sys.path.append(str(path.parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for data
            loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"The plugin {path} fails: {type(error).__name__}: {error}.",
            f"python {path} shows where",
        ) from error
    _loaded[path] = module_name
    return path


def place_of(error: Exception) -> str:
    """Where plugins raised or passed on an exception, as `FILE, line N,`; "" where none did."""
    stack = traceback.extract_tb(error.__traceback__)
    places = [f"{at.filename}, line {at.lineno}," for at in stack if Path(at.filename) in sources]
    return places[-1] if places else ""


def module_of(path: Path) -> ModuleType:
    """The module of a loaded plugin file."""
    return sys.modules[_loaded[path]]


def path_of(module_name: str) -> Path | None:
    """The plugin file of a module, which may still be loading; None if it is not a plugin."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return Path(file) if file and module_name.startswith(_PREFIX) else None
