"""Passes a model's own Python code through the gate (`ictcli.files.gate`) before it is run.

transformers runs copies in its cache, also for vLLM; mlx-lm runs a file of the model's folder."""

import contextlib
import importlib.util
import sys
import sysconfig
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ictcli.files import gate
from ictcli.files.reading import read_bytes

PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
INSTALLED = {str(sysconfig.get_path(name)) for name in PLACES}
_models: dict[Path, tuple[str, str]] = {}
"""By folder of modules: the model to which the modules belong, and its name as typed."""


def _read(path: Path) -> bytes:
    """Return the source of a module before it runs. UnknownCodeError if its code may not run."""
    content = read_bytes(path)
    if content.strip():  # transformers writes empty __init__.py files
        models = (_models[folder] for folder in path.parents if folder in _models)
        source, name = next(models, (str(path.parent), ""))
        gate.admit_model(source, path, content, name)
    return content


def _loader(name: str, path: str) -> gate.Loader:
    return gate.Loader(name, path, _read)


sys.meta_path.insert(0, gate.Finder("transformers_modules.", _loader))


@contextlib.contextmanager
def asking(model: str, named: str) -> Generator[None]:
    """Context for loading a model, a folder or hub id. Python files that are not of an installed
    package must pass the gate before they run. `named`: the model's name as typed."""
    plain: Any = importlib.util.spec_from_file_location
    copier: Any = sys.modules.get("transformers.dynamic_module_utils")
    checked = copier and copier.check_imports

    def register(file: Any) -> Path:
        path = Path(str(file))
        _models[path.parent] = model, named and f"model {named}"
        return path

    def check(file: Any) -> Any:
        """Pass a file through the gate before transformers checks its imports and copies it."""
        _read(register(file))
        return checked(file)

    def spec_of(name: str, location: Any = None, *, loader: Any = None, **more: Any) -> Any:
        foreign = location and not any(map(Path(str(location)).is_relative_to, INSTALLED))
        if loader is None and foreign:
            loader = _loader(name, str(register(location)))
        return plain(name, location, loader=loader, **more)

    importlib.util.spec_from_file_location = spec_of
    if copier:
        copier.check_imports = check
    try:
        yield
    finally:
        importlib.util.spec_from_file_location = plain
        if copier:
            copier.check_imports = checked
