"""Laws of the MLX engine's own: what it saves, and that saving changes nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine import build_engine
from ictcli.engine.update import Update
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.types import Sampling

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, require
from .test_generate import same
from .training import (
    PLAIN,
    SMOOTH,
    advantages,
    apart,
    logp_of,
    sparse_weights,
    state,
    train,
    weights_of,
)

LONGEST = max(map(len, PROMPTS))


def make_mlx(
    folder: Path,
    optimizer: OptimizerSettings | None = None,
    adapter: AdapterSettings | None = None,
    **settings: Any,
) -> Any:
    require("mlx")
    given = {"backend": "mlx", "device": "cpu", "dtype": "float32", **settings}
    chosen = EngineSettings(**given)
    return build_engine(str(folder), chosen, optimizer or OptimizerSettings(), adapter)


@pytest.fixture
def mlx_engine(model: Path) -> Any:
    return make_mlx(model)


@dataclass
class Passes:
    """What the model's forward passes were given, in order."""

    ids: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """Shapes of the input ids."""
    places: list[int] = field(default_factory=list[int])
    """How many hidden states the head met."""


@pytest.fixture
def passes(mlx_engine: Any) -> Passes:
    """Recorded by subclasses: MLX has no hooks, and calls what a module's class says."""
    from ictcli_mlx.model import find_heads

    found, model = Passes(), mlx_engine.model
    plain = type(model)

    def call(self: Any, ids: Any, *args: Any, **more: Any) -> Any:
        if ids.shape != (1, 1):  # else it only hands states to the head
            found.ids.append(tuple(ids.shape))
        return plain.__call__(self, ids, *args, **more)

    model.__class__ = type("Recorded", (plain,), {"__call__": call})
    for head, method in find_heads(model):
        kind = type(head)

        def see(self: Any, x: Any, kind: Any = kind, method: str = method) -> Any:
            if x.size:
                found.places.append(x.size // x.shape[-1])
            return getattr(kind, method)(self, x)

        head.__class__ = type("Recorded", (kind,), {method: see})
    return found


@pytest.mark.parametrize("elements", [1, 500, 1 << 40])
def test_statistics_pooled_or_at_once_are_the_same(
    mlx_engine: Any, monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    wanted = mlx_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    monkeypatch.setattr("ictcli_mlx.stats.PENDING_ELEMENTS", elements)
    same(mlx_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED), wanted, atol=1e-6)


@pytest.mark.parametrize("gone", [1, 8, 1_000_000], ids=["never", "one in eight", "at once"])
def test_statistics_cost_no_forward_pass(
    mlx_engine: Any, passes: Passes, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    """One prefill a prompt, a step for its last token, then a token a lane; nothing else. Ended
    rows leave when they are one in `gone`; the pass behind a row's last token is begun before
    anyone has read it."""
    wanted = mlx_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    passes.ids.clear()
    monkeypatch.setattr("ictcli_mlx.sample.GONE", gone)
    found = mlx_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    same(found, wanted)
    running = found.valid.sum(axis=0)[: SAMPLING.max_tokens - 1]
    assert running.min() < running.max()
    assert passes.ids[:2] == [(len(PROMPTS), LONGEST - 1), (len(PROMPTS), 1)]
    assert all(length == 1 for _, length in passes.ids[2:])
    lanes = np.array([rows for rows, _ in passes.ids[2:]])
    assert len(lanes) == len(running)
    assert (np.diff(lanes) <= 0).all()
    assert (lanes >= running).all()
    assert (gone * (lanes - running) < lanes).all()
    assert gone != 1 or (lanes == len(found)).all()


def test_the_head_meets_weighted_places_only(mlx_engine: Any, passes: Passes) -> None:
    """And a row runs no further than its last weight."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    weights[:, 6:] = 0
    report = mlx_engine.update(Update(rollouts, weights, A, PLAIN), 0.0)
    assert sum(passes.places) == ((weights != 0) & (A != 0)[:, None]).sum()
    assert all(length <= LONGEST + 6 for _, length in passes.ids)
    assert report.tokens == sum(rows * length for rows, length in passes.ids)


def test_logits_of_a_pass_are_bounded(
    mlx_engine: Any, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts = made_up()
    wanted = logp_of(mlx_engine, rollouts)
    passes.places.clear()
    monkeypatch.setattr(mlx_engine.passes, "chunk", 30)
    np.testing.assert_allclose(logp_of(mlx_engine, rollouts), wanted, atol=1e-5)
    assert len(passes.places) > 4
    assert max(passes.places) <= 30


def test_heads_are_as_they_were_after_a_pass(mlx_engine: Any) -> None:
    before = [type(module) for module in mlx_engine.model.modules()]
    mlx_engine.logits(made_up(), made_up().valid)
    train(mlx_engine, made_up(), 1)
    assert [type(module) for module in mlx_engine.model.modules()] == before


def test_gradient_checkpointing_changes_nothing(model: Path, tmp_path: Path) -> None:
    rollouts = made_up()
    plain, spare = make_mlx(model, SMOOTH), make_mlx(model, SMOOTH, gradient_checkpointing=True)
    before = [type(layer) for layer in spare.model.layers]
    for one, other in zip(train(plain, rollouts, 2), train(spare, rollouts, 2), strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-4, abs=1e-6)
    assert apart(weights_of(plain, tmp_path / "1"), weights_of(spare, tmp_path / "2")) < 1e-6
    assert [type(layer) for layer in spare.model.layers] == before


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_pass_that_breaks_off_leaves_everything_as_it_was(
    tiny_model: Path, tmp_path: Path, checkpointing: bool
) -> None:
    engine, rollouts = make_mlx(tiny_model, gradient_checkpointing=checkpointing), made_up()
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
    kinds = [type(module) for module in engine.model.modules()]
    mlp = engine.model.layers[1].mlp
    plain = type(mlp)

    def broken(self: Any, x: Any) -> Any:
        raise ArithmeticError

    mlp.__class__ = type("Broken", (plain,), {"__call__": broken})
    with pytest.raises(ArithmeticError):
        train(engine, rollouts, 1, 1)
    mlp.__class__ = plain
    assert [type(module) for module in engine.model.modules()] == kinds
    assert state(engine, tmp_path / "after") == before
    again = make_mlx(tiny_model, gradient_checkpointing=checkpointing)
    train(again, rollouts, 2)
    train(engine, rollouts, 1, 1)
    assert state(engine, tmp_path / "went on") == state(again, tmp_path / "never broke off")


@pytest.fixture
def cramped(tiny_model: Path) -> Iterator[Any]:
    """An engine that may use a thousand bytes; MLX's own settings are put back."""
    import mlx.core as mx

    engine = make_mlx(tiny_model, SMOOTH)
    engine.memory.limit = 1000
    yield engine
    mx.set_cache_limit(1 << 30)


def test_more_memory_than_the_limit_ends_with_a_sentence(cramped: Any, tmp_path: Path) -> None:
    rollouts, before = made_up(), state(cramped, tmp_path / "before")
    ends = [
        lambda: cramped.generate(PROMPTS, GROUP, SAMPLING, 3),
        lambda: train(cramped, rollouts, 1),
        lambda: logp_of(cramped, rollouts),
        lambda: cramped.logits(rollouts, rollouts.valid),
    ]
    for call in ends:
        with pytest.raises(RunFailedError) as caught:
            call()
        assert "engine.memory_limit" in caught.value.hint
        assert "MiB" in caught.value.message
        assert state(cramped, tmp_path / "after") == before
    with pytest.raises(RunFailedError) as caught:
        make_mlx(cramped.source.path, memory_limit=1e-6)
    assert caught.value.message.startswith("Loading the model")
    cramped.memory.limit = 0
    cramped.budget.tokens, cramped.budget.rows = 2048, 512  # it had tried with ever less
    plain = make_mlx(cramped.source.path, SMOOTH)
    for engine in (cramped, plain):
        train(engine, rollouts, 2)
    assert state(cramped, tmp_path / "went on") == state(plain, tmp_path / "plain")


def test_freed_buffers_are_bounded_by_the_limit(tiny_model: Path) -> None:
    """They are kept for the next pass, and are memory too; whatever the engine does between."""
    import mlx.core as mx

    engine = make_mlx(tiny_model, memory_limit=0.5)
    engine.generate(PROMPTS, GROUP, SAMPLING, 3)
    train(engine, made_up(), 1)
    assert mx.set_cache_limit(1 << 30) <= 2**29 // 8


def compiled_and_plain(folder: Path, out: Path) -> None:
    """Three updates each, with sampling between them: every figure by name. Runs where
    MLX_DISABLE_COMPILE is not set, in a process of its own."""
    found: dict[str, Any] = {}
    for chosen in ("on", "off"):
        engine = make_mlx(folder, SMOOTH, compile=chosen)
        assert engine.describe()["compiled"] == (chosen == "on")
        for step in range(3):
            report = train(engine, made_up(), 1, step)[0]
            found[f"{chosen}/{step}/logp"] = report.logp
            sampled = engine.generate(PROMPTS[:2], 3, Sampling(4), step, ("entropy", "uniqueness"))
            found[f"{chosen}/{step}/tokens"] = sampled.tokens
            for name, values in sampled.stats.items():
                found[f"{chosen}/{step}/{name}"] = values
        for name, values in weights_of(engine, out / chosen).items():
            found[f"{chosen}/{name}"] = values
    np.savez(out / "found.npz", **found)


@pytest.mark.skipif(shutil.which("g++") is None, reason="MLX compiles for a CPU with g++")
def test_compiled_kernels_change_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """Weights that a compiled update kept from an earlier step would show here."""
    code = (
        "from contract.test_mlx import *; compiled_and_plain(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("MLX_DISABLE_COMPILE", None)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_model), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    names = [name.removeprefix("on/") for name in found if name.startswith("on/")]
    assert len(names) > 20
    for name in names:
        one, other = found[f"on/{name}"], found[f"off/{name}"]
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5, err_msg=name)
