"""The gate: all loaders ask it whether code may run, and pass it the bytes about to run.

Code may run if the user typed its name or ran it before: a file in the user's state folder keeps
digests of such code's path and content. In a command, and in a process that has read a run, all
other code is refused, since a run's folder may come from someone else.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from platformdirs import user_state_path

from ictcli.errors import UnknownCodeError
from ictcli.files.reading import read_bytes

PASSED_ON = "ICTCLI_CODE_RUN_HERE"
"""Environment variable that passes `state` on to the commands that this process starts."""


@dataclass
class State:
    """Which code this process may run."""

    asks: bool = False
    """Whether unknown code is refused."""
    trusts: bool = False
    """Whether unknown code runs all the same, and is remembered (`--trust`)."""
    shut: bool = False
    """Whether no code runs at all."""
    typed: set[str] = field(default_factory=set[str])
    """Names of code that the user typed."""
    known: set[str] = field(default_factory=set[str])
    """Digests (place and content) of code that ran in this process or the one that started it."""
    contents: set[bytes] = field(default_factory=set[bytes])
    """Digests of the contents, without the place, of code that ran in this process."""


_now = State()


def ask() -> None:
    """From now on, refuse unknown code."""
    _now.asks = True


def trust_all() -> None:
    """From now on, run and remember code that would be refused."""
    _now.trusts = True


def note_typed(*names: str) -> None:
    """Let code with these names, which the user typed, run."""
    _now.typed.update(filter(None, names))


def is_typed(name: str) -> bool:
    return name in _now.typed


@contextlib.contextmanager
def shut() -> Generator[None]:
    """Refuse all code within the context, known or not."""
    before = _now.shut, _now.asks
    _now.shut = True
    try:
        yield
    finally:
        _now.shut, _now.asks = before


def admit(what: str, place: str, content: bytes, name: str = "") -> None:
    """Remember code as known, just before it runs. `what` describes it to the user; `name` is what
    the user would type for it. UnknownCodeError if it may not run."""
    if _now.shut:
        raise UnknownCodeError(f"{what} is code, and no code is run here.", "")
    digest = _digest(place, content)
    if digest not in _known():
        if _now.asks and not _now.trusts and name not in _now.typed:
            raise UnknownCodeError(
                f"A run uses code that you have not run here in its present form: {what}.",
                "read the code; --trust runs it, now and later",
            )
        _remember(digest)
    _now.contents.add(hashlib.sha256(content).digest())


def admit_model(source: str, file: Path, content: bytes, name: str = "") -> None:
    """Admit (see `admit`) a Python file of the model `source`, a folder or a hub id."""
    admit(str(file), _of_model(source, file), content, name)


def copied(folder: Path) -> None:
    """Remember the Python files in a model's folder that copy code that ran in this process."""
    for file in folder.rglob("*.py"):
        content = read_bytes(file)
        if hashlib.sha256(content).digest() in _now.contents:
            _remember(_digest(_of_model(str(folder), file), content))


def _of_model(source: str, file: Path) -> str:
    """Return the place by which a model's file is remembered; transformers runs a cached copy."""
    return f"model {Path(source).resolve() if Path(source).is_dir() else source} {file.name}"


def _digest(place: str, content: bytes) -> str:
    return hashlib.sha256(os.fsencode(place) + b" " + content).hexdigest()


def _remember(digest: str) -> None:
    if digest in _known():
        return
    _now.known.add(digest)
    path = _file()
    with contextlib.suppress(OSError):  # then the code is unknown next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write(f"{digest}\n")


def _known() -> set[str]:
    try:
        return _now.known | set(_file().read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return _now.known


def _file() -> Path:
    return user_state_path("ictcli") / "code-run-here"


# Other processes


def state() -> dict[str, Any]:
    """Return the state that a worker process, perhaps on another machine, has to `adopt`."""
    names = {"typed": sorted(_now.typed), "known": sorted(_known())}
    return {"asks": _now.asks, "trusts": _now.trusts, **names}


def adopt(received: Mapping[str, Any]) -> None:
    """Add another process's `state` to that of this process."""
    _now.asks |= received.get("asks", False)
    _now.trusts |= received.get("trusts", False)
    _now.typed.update(received.get("typed", ()))
    _now.known.update(received.get("known", ()))


def environment() -> dict[str, str]:
    """Return the environment variables for a command that this process starts."""
    return {**os.environ, PASSED_ON: json.dumps(state())}


adopt(json.loads(os.environ.get(PASSED_ON) or "{}"))


# What is about to run


class Loader(SourceFileLoader):
    """Runs the source that `read` returns; `read` asks the gate. Compiled files are neither read
    nor written: they may come from other source code."""

    def __init__(self, name: str, path: str, read: Callable[[Path], bytes]) -> None:
        super().__init__(name, path)
        self.read = read

    def get_data(self, path: str) -> bytes:
        return self.read(Path(path))

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError


class Finder:
    """Finds modules in packages whose names start with `prefix`, for `loader` to run."""

    def __init__(self, prefix: str, loader: Callable[[str, str], Loader]) -> None:
        self.prefix, self.loaders = prefix, (cast(Any, loader), SOURCE_SUFFIXES)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not path or not name.startswith(self.prefix):
            return None
        specs = (FileFinder(place, self.loaders).find_spec(name) for place in path)
        if spec := next(filter(None, specs), None):
            return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)  # Python might run a .pyc


def module_source(name: str) -> bytes:
    """Return the paths and contents, joined, of the files that importing a module would run."""
    parts, code = name.split("."), b""
    places: list[str] | None = None
    for end in range(len(parts)):
        whole, within = ".".join(parts[: end + 1]), places
        specs = (finder.find_spec(whole, within) for finder in sys.meta_path)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.origin and (file := Path(spec.origin)).is_file():
            code += os.fsencode(f"{file.resolve()} ") + read_bytes(file)
        places = spec and spec.submodule_search_locations
        if places is None:
            break
    return code
