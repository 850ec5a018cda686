"""Code that a model brings along, asked for at the gate (`ictcli.files.gate`) as it is loaded.

transformers runs copies from its cache, vLLM asks transformers, and mlx-lm runs a file of
the model's folder.
"""

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
"""By folder of modules, their model and the name by which it was typed."""


def _read(path: Path) -> bytes:
    """Return a module that is about to run. UnknownCodeError if it may not."""
    content = read_bytes(path)
    if content.strip():  # transformers makes packages of nothing
        known = (_models[folder] for folder in path.parents if folder in _models)
        source, name = next(known, (str(path.parent), ""))
        gate.admit_model(source, path, content, name)
    return content


def _loader(name: str, path: str) -> gate.Loader:
    return gate.Loader(name, path, _read)


sys.meta_path.insert(0, gate.Finder("transformers_modules.", _loader))


@contextlib.contextmanager
def asking(model: str, named: str) -> Generator[None]:
    """Wrap what loads a model, a folder or hub id: a file that is not installed with Python runs as
    the gate lets it. `named`: how a user would have typed it."""
    plain: Any = importlib.util.spec_from_file_location
    copier: Any = sys.modules.get("transformers.dynamic_module_utils")
    checked = copier and copier.check_imports

    def known(file: Any) -> Path:
        path = Path(str(file))
        _models[path.parent] = model, named and f"model {named}"
        return path

    def check(file: Any) -> Any:
        """Check a file before transformers imports what it names, and copies it."""
        _read(known(file))
        return checked(file)

    def spec_of(name: str, location: Any = None, *, loader: Any = None, **more: Any) -> Any:
        foreign = location and not any(map(Path(str(location)).is_relative_to, INSTALLED))
        if loader is None and foreign:
            loader = _loader(name, str(known(location)))
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
