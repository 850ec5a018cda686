"""Laws of the MLX engine's own: its caches and layers, compiled kernels, and its memory."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.engine.update import Update
from ictcli.errors import RunFailedError
from ictcli.types import Rollouts

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_mlx, require
from .lowrank import LORA
from .models import make_deep
from .test_generate import same
from .training import LR, PLAIN, SMOOTH, logp_of, plain_update, sparse_weights, state, train


@pytest.fixture(autouse=True)
def _mlx() -> None:
    require("mlx")


def test_a_pass_that_breaks_off_leaves_everything_as_it_was(tiny_model: Path) -> None:
    engine, rollouts = make_mlx(tiny_model, gradient_checkpointing=True), made_up()
    kinds = [type(module) for module in engine.model.modules()]
    train(engine, rollouts, 1)
    before = state(engine)
    mlp = engine.model.layers[1].mlp
    plain = type(mlp)

    def broken(self: Any, x: Any) -> Any:
        raise ArithmeticError

    mlp.__class__ = type("Broken", (plain,), {"__call__": broken})
    with pytest.raises(ArithmeticError):
        train(engine, rollouts, 1, 1)
    mlp.__class__ = plain
    assert [type(module) for module in engine.model.modules()] == kinds
    assert state(engine) == before
    again = make_mlx(tiny_model, gradient_checkpointing=True)
    train(again, rollouts, 2)
    train(engine, rollouts, 1, 1)
    assert state(engine) == state(again)


@pytest.fixture
def _cache_limit() -> Iterator[None]:
    """MLX's own settings are put back."""
    import mlx.core as mx

    yield
    mx.set_cache_limit(1 << 30)


@pytest.mark.usefixtures("_cache_limit")
def test_more_memory_than_the_limit_ends_with_a_sentence(tiny_model: Path) -> None:
    cramped, plain = make_mlx(tiny_model, SMOOTH), make_mlx(tiny_model, SMOOTH)
    cramped.memory.limit = 1000
    rollouts, before = made_up(), state(cramped)
    ends = [
        lambda: cramped.generate(PROMPTS, GROUP, SAMPLING, 3),
        lambda: train(cramped, rollouts, 1),
        lambda: logp_of(cramped, rollouts),
        lambda: cramped.logits(rollouts, rollouts.valid),
    ]
    for call in ends:
        with refused("MiB", hint="engine.memory_limit", kind=RunFailedError):
            call()
        assert state(cramped) == before
    with refused("Loading the model", kind=RunFailedError):
        make_mlx(tiny_model, memory_limit=1e-6)
    cramped.memory.limit = 0
    cramped.budget.tokens, cramped.budget.rows = 2048, 512  # it had tried with ever less
    for engine in (cramped, plain):
        train(engine, rollouts, 2)
    assert state(cramped) == state(plain)


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None, reason="MLX compiles for a CPU with g++")
def test_compiled_kernels_change_nothing() -> None:
    """The laws of updates over several steps, and of what is sampled."""
    laws = [Path(__file__).with_name(f"test_{name}.py") for name in ("update", "generate")]
    environment = os.environ | {"MLX_COMPILE": "on", "HYPOTHESIS_PROFILE": "quick"}
    del environment["MLX_DISABLE_COMPILE"]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-k", "mlx", *laws]
    subprocess.run(command, env=environment, check=True)


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[1:2] * 3], ids=["several", "one length"])
def test_prompts_read_in_chunks_are_alike(
    model: Path, monkeypatch: pytest.MonkeyPatch, prompts: Any
) -> None:
    engine = make_mlx(model)
    wanted = engine.generate(prompts, GROUP, SAMPLING, 3, WANTED)
    for tokens in (1, 8, 12):
        monkeypatch.setattr("ictcli_mlx.sample.PREFILL_TOKENS", tokens)
        same(engine.generate(prompts, GROUP, SAMPLING, 3, WANTED), wanted)


def long_rollouts(T: int = 120, rows: int = 4) -> Rollouts:
    tokens = np.random.default_rng(0).integers(2, 18, (rows, T)).astype(np.int32)
    lengths, done = np.full(rows, T, dtype=np.int32), np.ones(rows, dtype=bool)
    logp, group = np.zeros((rows, T), np.float32), rows // 2
    return Rollouts(((5, 6), (7, 8)), group, tokens, lengths, done, logp)


def every_row(rollouts: Rollouts) -> Update:
    A = np.array([1.0, -1.0, 0.5, -0.5])
    return Update(rollouts, sparse_weights(rollouts), A, PLAIN)


def peak_of_an_update(engine: Any, rollouts: Rollouts) -> int:
    import mlx.core as mx

    gc.collect()  # engines of other tests, or their end would count here
    engine.memory.free()
    engine.memory.forget_peak()
    held = mx.get_active_memory()
    assert engine.update(every_row(rollouts), LR).stepped
    return engine.peak_memory() - held


@pytest.fixture
def deep_model(tmp_path: Path) -> Path:
    return make_deep(tmp_path)


def test_a_pass_over_the_limit_is_done_again_with_less(deep_model: Path) -> None:
    import mlx.core as mx

    rollouts, told = long_rollouts(), list[str]()
    plain, small = make_mlx(deep_model), make_mlx(deep_model, micro_tokens=122)
    large, least = (peak_of_an_update(engine, rollouts) for engine in (plain, small))
    engine = make_mlx(deep_model)
    engine.budget.say = told.append
    engine.memory.free()
    engine.memory.limit = mx.get_active_memory() + (large + least) // 2
    report = engine.update(every_row(rollouts), LR)
    assert len(told) == 1
    assert "more than the limit" in told[0]
    other = make_mlx(deep_model)
    other.budget.restore(engine.budget.state())
    assert other.update(every_row(rollouts), LR).grad_norm == report.grad_norm
    assert state(engine) == state(other)


def test_nothing_is_held_from_step_to_step(tiny_model: Path) -> None:
    """Neither an unevaluated graph, nor the last step's arrays, nor what Python would have to look
    for; and freed buffers are given back."""
    import mlx.core as mx

    engine = make_mlx(tiny_model, adapter=LORA)
    rollouts, active = made_up(), []
    gc.collect()
    gc.disable()
    try:
        for step in range(6):
            engine.generate(PROMPTS, GROUP, SAMPLING, step, WANTED)
            assert train(engine, rollouts, 1, step)[0].stepped
            assert mx.get_cache_memory() == 0
            active.append(mx.get_active_memory())
    finally:
        gc.enable()
    assert max(active[2:]) - min(active[2:]) < 1 << 14  # small arrays come and go


@pytest.mark.parametrize("size", [1e-4, 1e-7])
def test_small_weights_do_not_vanish_in_float16(tiny_model: Path, size: float) -> None:
    """Weights are shares of a whole batch: 1e-6 of a large one. The gradient of a smaller number
    than float16 has would be 0."""
    import mlx.core as mx
    from ictcli_mlx.files import flat

    engine, update = make_mlx(tiny_model), plain_update(made_up())
    update = replace(update, weights=update.weights * size / update.weights.max())

    def gradient() -> tuple[float, np.ndarray]:
        loss = engine.gradient(update).loss
        values = flat(engine.optimizer.gradient).values()
        return loss / size, np.concatenate([np.array(each).ravel() / size for each in values])

    loss, exact = gradient()
    engine.model.set_dtype(mx.float16)
    rounded_loss, rounded = gradient()
    assert np.linalg.norm(rounded - exact) < 0.02 * np.linalg.norm(exact)
    assert rounded_loss == pytest.approx(loss, rel=0.05, abs=0.02)
