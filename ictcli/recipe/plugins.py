"""Plugins: Python files that register methods, verifiers, tasks or benchmarks.

A recipe lists them under `plugins`. They run with the user's rights, like any script.
"""

import contextlib
import importlib.util
import sys
import zlib
from pathlib import Path
from types import ModuleType

from ictcli.errors import UserError

_PREFIX = "ictcli_plugin_"
_loaded: dict[Path, str] = {}


def find(name: str, base: Path | None = None) -> Path | None:
    """The absolute path of a plugin file, if there is one. A relative path is relative to the
    working directory or else to `base`, the recipe's folder."""
    places = (Path(name), (base or Path()) / name)
    return next((place.resolve() for place in places if place.is_file()), None)


def load(name: str, base: Path | None = None) -> Path:
    """Run a plugin file (see `find`), unless it already ran, and return its absolute path.
    UserError if there is no such file, or it fails."""
    path = find(name, base)
    if path is None:
        raise UserError(f"There is no plugin file {name}.", "plugins are paths of .py files")
    if path in _loaded:
        return path
    module_name = f"{_PREFIX}{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file.", "plugins are paths of .py files")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if str(path.parent) not in sys.path:  # it can import its neighbours, like a script
        sys.path.append(str(path.parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for data
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"The plugin {path} fails: {type(error).__name__}: {error}.",
            f"python {path} shows where",
        ) from error
    _loaded[path] = module_name
    return path


def module_of(path: Path) -> ModuleType:
    """The module of a loaded plugin file."""
    return sys.modules[_loaded[path]]


def path_of(module_name: str) -> Path | None:
    """The plugin file of a module, which may still be loading; None if it is not a plugin."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return Path(file) if file and module_name.startswith(_PREFIX) else None
