"""Plugins: Python files that register methods, verifiers, tasks or benchmarks.

A recipe lists them under `plugins`. They run with the user's rights, like any script. A plugin can
import other files of its folder, which no other code can: the folder is a separate package, not on
`sys.path`. A process reads each file once and passes its content to the gate, so that the code that
was checked is the code that runs.
"""

import builtins
import contextlib
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.machinery import SOURCE_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ictcli.errors import UnknownCodeError, UserError
from ictcli.files import gate
from ictcli.files.reading import read_bytes

_PREFIX = "ictcli_plugins_"
_modules: dict[str, Path] = {}
"""Plugin files by module name."""
_loaded: dict[Path, str] = {}
sources: dict[Path, bytes] = {}
"""Contents of the files read so far; see `source`."""


def source(path: Path) -> bytes:
    """Return a file's content when this process, or the parent of this worker, first read it.
    UnknownCodeError if it may not run."""
    content = sources[path] if path in sources else read_bytes(path)
    named = f"file {path}" if path in _modules.values() else f"beside {path.parent}"
    gate.admit(str(path), f"file {path}", content, named)
    return sources.setdefault(path, content)


class _Loader(gate.Loader):
    """Runs a plugin or a file that it imports; their imports find files of the same folder."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path, source)

    def exec_module(self, module: ModuleType) -> None:
        changed = {"__import__": _importing(module.__name__.partition(".")[0])}
        vars(module)["__builtins__"] = vars(builtins) | changed
        super().exec_module(module)


sys.meta_path.insert(0, gate.Finder(_PREFIX, _Loader))


def _importing(package: str) -> Callable[..., ModuleType]:
    """Return an `__import__` for the plugins of one folder: a module that is not found elsewhere is
    looked for in that folder."""

    def find(
        name: str, within: Any = None, at: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        try:
            return builtins.__import__(name, within, at, fromlist, level)
        except ModuleNotFoundError as error:
            first = name.partition(".")[0]
            beside = f"{package}.{first}"
            if level or error.name != first or not find_spec(beside):
                raise
        module = builtins.__import__(f"{package}.{name}", within, at, fromlist, 0)
        return module if fromlist else sys.modules[beside]

    return find


def listed(data: Mapping[str, Any]) -> list[str]:
    """Return the names under `plugins` in a recipe's table, which has a list or a single name."""
    names: object = data.get("plugins", [])
    return list(map(str, cast(list[object], names))) if isinstance(names, list) else [str(names)]


def find(name: str, base: Path | None = None) -> Path | None:
    """Return the absolute path of a plugin file; None if there is none. A relative path is looked
    up in the working directory, then in `base`, the recipe's folder."""
    places = (Path(name), (base or Path()) / name)
    return next((place.resolve() for place in places if place.is_file()), None)


def load(name: str, base: Path | None = None, *, typed: bool = False) -> Path:
    """Run a plugin file (see `find`), unless it already ran, and return its absolute path. `typed`:
    whether the user typed its name. UserError if it does not exist, may not run, or fails."""
    path = find(name, base)
    if path is None:
        raise UserError(f"There is no plugin file {name}.", "plugins are paths of .py files")
    if path in _loaded:
        return path
    if path.suffix not in SOURCE_SUFFIXES:
        raise UserError(f"{path} is not a Python file.", "plugins are paths of .py files")
    if typed:
        gate.note_typed(f"file {path}", f"beside {path.parent}")
    module_name = f"{_package(path.parent)}.{path.stem.replace('.', '_')}"
    _modules[module_name] = path
    loader = _Loader(module_name, str(path))
    module = module_from_spec(cast(Any, spec_from_file_location(module_name, path, loader=loader)))
    sys.modules[module_name] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for data
            loader.exec_module(module)
    except UnknownCodeError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(
            f"The plugin {path} fails: {type(error).__name__}: {error}.",
            f"python {path} shows where",
        ) from error
    _loaded[path] = module_name
    return path


def _package(folder: Path) -> str:
    """Return the name of the package for a folder of plugins, created if it is missing."""
    name = f"{_PREFIX}{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    package = sys.modules.setdefault(name, ModuleType(name))
    package.__path__ = [str(folder)]
    return name


def place_of(error: Exception) -> str:
    """Return the last place in plugin code that an exception passed: `FILE, line N,`, or ""."""
    stack = traceback.extract_tb(error.__traceback__)
    places = [f"{at.filename}, line {at.lineno}," for at in stack if Path(at.filename) in sources]
    return places[-1] if places else ""


def module_of(path: Path) -> ModuleType:
    """Return the module of a loaded plugin file."""
    return sys.modules[_loaded[path]]


def path_of(module_name: str) -> Path | None:
    """Return the plugin file of a module, which may still be loading, or None."""
    return _modules.get(module_name)
