"""Engines by name, the models they are tried on, and the oracle of each."""

import os
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.quantities import STATISTICS
from ictcli.engine import Engine, build_engine
from ictcli.files import plugins
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import Rollouts, Sampling
from tests.cases import first

from .lowrank import LORA
from .models import make_hybrid, make_narrow, make_sliding
from .oracle import Oracle
from .training import SMOOTH

ENGINES = ("torch", "mlx")
IMPLEMENTED = ("torch", "mlx")
"""Must be installed where CI is set; the others are skipped wherever they are missing."""

Make = Callable[..., Any]
PLAIN_ADAMW = OptimizerSettings()

PROMPTS = ((5, 12, 3), (2, 13, 9, 12, 4, 15), (7,), (11, 14, 6, 12))
"""Of several lengths, so that a batch of them is padded."""


def require(name: str) -> None:
    """Skip a test of an engine that is missing; fail where it must be there."""
    try:
        import_module(f"ictcli_{name}.engine")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("ictcli"):
            raise
        missing = f"it does not import: {error}"
    else:
        return
    if os.environ.get("CI") and name in IMPLEMENTED:
        pytest.fail(f"CI must test the {name} engine, and {missing}.")
    pytest.skip(f"the {name} engine: {missing}")


def has_cuda(engine: str) -> bool:
    """Whether the engine's library finds a CUDA GPU."""
    try:
        library: Any = import_module({"torch": "torch", "mlx": "mlx.core"}[engine])
    except ImportError:
        return False
    return library.cuda.is_available()


EVERY_CASE = ("test_generate", "test_kinds", "test_score", "test_update", "test_gpu")
"""With every engine."""

collect_ignore = [] if any(map(has_cuda, ENGINES)) else ["test_gpu.py", "test_bitsandbytes.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first case of a law with both engines, and each further one with one of them."""
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        given: Any = getattr(item, "callspec", None)
        params = given.params if given else {}
        if "engine_name" in params and item.path.stem not in EVERY_CASE:
            law = item.nodeid.partition("[")[0], params["engine_name"]
            if seen[law] and (seen[law] + ENGINES.index(law[1])) % 2:
                item.add_marker(pytest.mark.thorough)
            seen[law] += 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`device`: the CPU, or a GPU in tests that are marked so."""
    if "device" in metafunc.fixturenames:
        gpu = metafunc.definition.get_closest_marker("gpu")
        metafunc.parametrize("device", ["cuda" if gpu else "cpu"], scope="session")


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    require(request.param)
    return request.param


def build(
    name: str,
    folder: Path,
    optimizer: OptimizerSettings | None = PLAIN_ADAMW,
    adapter: NewAdapters | None = None,
    **settings: Any,
) -> Any:
    """An engine, by default one that trains all weights in float32 on the CPU."""
    require(name)
    if settings.get("device") == "cuda" and not has_cuda(name):
        pytest.skip(f"the {name} engine finds no CUDA GPU")
    given = {"backend": name, "device": "cpu", "dtype": "float32", "threads": 1}
    given |= {"compile": os.environ.get("MLX_COMPILE", "auto"), **settings}
    return build_engine(str(folder), EngineSettings(**given), optimizer, adapter)


make_torch, make_mlx = partial(build, "torch"), partial(build, "mlx")


def reader(name: str, folder: Path, **settings: Any) -> Any:
    """An engine that samples and evaluates only."""
    return build(name, folder, None, **settings)


@pytest.fixture(scope="session")
def make_engine(engine_name: str, device: str, tiny_model: Path) -> Make:
    """Build an engine of the test's own: `make_engine(folder, optimizer, rows=4, ...)`; without a
    folder, of the tied model."""

    def make(folder: Path = tiny_model, *given: Any, **settings: Any) -> Any:
        return build(engine_name, folder, *given, **{"device": device, **settings})

    return make


@pytest.fixture(scope="session")
def make_adapted(make_engine: Make) -> Make:
    """Build an engine that trains adapters: `make_adapted(folder, adapter=LORA, ...)`."""
    return partial(make_engine, optimizer=SMOOTH, adapter=LORA)


@pytest.fixture(scope="session")
def sliding_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sliding(tmp_path_factory.mktemp("models") / "sliding")


@pytest.fixture(scope="session")
def hybrid_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hybrid(tmp_path_factory.mktemp("models") / "hybrid")


@pytest.fixture(scope="session")
def narrow_model(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    return make_narrow(tiny_model, tmp_path_factory.mktemp("models") / "narrow")


@pytest.fixture(scope="session", params=first(["tied", "sliding", "untied"]))
def model(
    request: pytest.FixtureRequest, tiny_model: Path, untied_model: Path, sliding_model: Path
) -> Path:
    return {"tied": tiny_model, "untied": untied_model, "sliding": sliding_model}[request.param]


@pytest.fixture(scope="session")
def engine(make_engine: Make, model: Path) -> Engine:
    """Shared by tests that only read it."""
    return make_engine(model)


@pytest.fixture(scope="session")
def tiny_engine(make_engine: Make, tiny_model: Path) -> Engine:
    """The tied model's, where one model is enough. Shared by tests that only read it."""
    return make_engine(tiny_model)


@cache
def oracle_of(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture(scope="session")
def oracle(model: Path) -> Oracle:
    return oracle_of(model)


@pytest.fixture(scope="session")
def tiny_oracle(tiny_model: Path) -> Oracle:
    return oracle_of(tiny_model)


for plugin in ("methods.py", "credit.py"):
    plugins.load(str(Path(__file__).parents[2] / "examples" / "methods" / plugin))
SAMPLING = Sampling(max_tokens=14, stop_ids=(17, 4))
GROUP_STATS = tuple(
    name
    for name, each in STATISTICS.items()
    if each.kind == "group" and each.mean_over == "position"
)
WANTED = tuple(STATISTICS)
GROUP = 5


@pytest.fixture(scope="session", params=first([0.5, 1.0]))
def temperature(request: pytest.FixtureRequest) -> float:
    return request.param


@pytest.fixture(scope="session")
def rollouts(engine: Engine, temperature: float) -> Rollouts:
    """Sampled with every statistic, from prompts of several lengths."""
    sampling = Sampling(SAMPLING.max_tokens, temperature, stop_ids=SAMPLING.stop_ids)
    return engine.generate(PROMPTS, GROUP, sampling, 7, WANTED)


def made_up(seed: int = 0, *, group: int = 2) -> Rollouts:
    """Rollouts of no model: random tokens and lengths, for laws of what follows sampling."""
    rng = np.random.default_rng(seed)
    B, T = len(PROMPTS) * group, 13
    lengths = rng.integers(5, T + 1, B).astype(np.int32)
    lengths[0] = T
    tokens = rng.integers(2, 18, (B, T)).astype(np.int32)
    valid = np.arange(T) < lengths[:, None]
    return Rollouts(
        prompts=PROMPTS,
        group=group,
        tokens=np.where(valid, tokens, 0).astype(np.int32),
        lengths=lengths,
        finished=np.ones(B, dtype=bool),
        logp=np.zeros((B, T), dtype=np.float32),
    )
