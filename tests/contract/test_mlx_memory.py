"""Laws of the MLX engine's memory, and of how it runs a model: what numbers alone do not show."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.engine.packing import bucket
from ictcli.engine.update import Update
from ictcli.recipe.tables import AdapterSettings
from ictcli.types import Rollouts, Sampling

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_mlx, require
from .training import LR, PLAIN, advantages, logp_of, sparse_weights, state, train


@pytest.fixture(autouse=True)
def _mlx() -> None:
    require("mlx")


def long_rollouts(T: int = 120, rows: int = 4) -> Rollouts:
    tokens = np.random.default_rng(0).integers(2, 18, (rows, T)).astype(np.int32)
    lengths, done = np.full(rows, T, dtype=np.int32), np.ones(rows, dtype=bool)
    logp, group = np.zeros((rows, T), np.float32), rows // 2
    return Rollouts(((5, 6), (7, 8)), group, tokens, lengths, done, logp)


def peak_of_an_update(engine: Any, rollouts: Rollouts) -> int:
    import mlx.core as mx

    weights, A = sparse_weights(rollouts), np.array([1.0, -1.0, 0.5, -0.5])
    gc.collect()  # engines of other tests, or their end would count here
    engine.memory.free()
    engine.memory.forget_peak()
    held = mx.get_active_memory()
    assert engine.update(Update(rollouts, weights, A, PLAIN), LR).stepped
    return engine.peak_memory() - held


@pytest.mark.thorough
def test_recomputing_activations_saves_most_of_them(deep_model: Path) -> None:
    kept = peak_of_an_update(make_mlx(deep_model), long_rollouts())
    again = peak_of_an_update(make_mlx(deep_model, gradient_checkpointing=True), long_rollouts())
    assert again < kept / 2


def test_a_pass_over_the_limit_is_done_again_with_less(deep_model: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    rollouts, told = long_rollouts(), list[str]()
    plain, small = make_mlx(deep_model), make_mlx(deep_model, micro_tokens=122)
    large, least = (peak_of_an_update(engine, rollouts) for engine in (plain, small))
    engine = make_mlx(deep_model)
    engine.budget.say = told.append
    engine.memory.free()
    engine.memory.limit = mx.get_active_memory() + (large + least) // 2
    weights, A = sparse_weights(rollouts), np.array([1.0, -1.0, 0.5, -0.5])
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert len(told) == 1
    assert "over the limit" in told[0]
    other = make_mlx(deep_model)
    other.budget.restore(engine.budget.state())
    assert other.update(Update(rollouts, weights, A, PLAIN), LR).grad_norm == report.grad_norm
    assert state(engine, tmp_path / "a") == state(other, tmp_path / "b")


def test_nothing_is_held_from_step_to_step(tiny_model: Path) -> None:
    """Neither an unevaluated graph, nor the last step's arrays, nor what Python would have to look
    for; and freed buffers are given back."""
    import mlx.core as mx

    engine = make_mlx(tiny_model, adapter=AdapterSettings(kind="lora"))
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


def test_a_model_knows_when_it_is_trained(tiny_model: Path) -> None:
    """Some choose a kernel that has a gradient by it; afterwards it samples as before."""
    engine = make_mlx(tiny_model)
    seen: list[bool] = []
    plain = type(engine.model)

    def call(self: Any, *args: Any, **given: Any) -> Any:
        seen.append(self.training)
        return plain.__call__(self, *args, **given)

    engine.model.__class__ = type(plain.__name__, (plain,), {"__call__": call})
    train(engine, made_up(), 1)
    assert seen
    assert all(seen)
    seen.clear()
    engine.generate(PROMPTS, 2, Sampling(4), 0)
    logp_of(engine, made_up())
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("size", [1e-4, 1e-7])
def test_small_weights_do_not_vanish_in_float16(tiny_model: Path, size: float) -> None:
    """Weights are shares of a whole batch: 1e-6 of a large one. The gradient of a smaller number
    than float16 has would be 0."""
    import mlx.core as mx
    from ictcli_mlx.files import flat

    engine, rollouts = make_mlx(tiny_model), made_up()
    A = advantages(rollouts)
    weights = sparse_weights(rollouts)
    weights *= size / weights.max()

    def gradient() -> dict[str, np.ndarray]:
        stats = engine.gradient(Update(rollouts, weights, A, Objective()))
        losses.append(stats.loss)
        gradient = flat(engine.optimizer.gradient)
        return {name: np.array(values) / size for name, values in gradient.items()}

    losses: list[float] = []
    exact = gradient()
    engine.model.set_dtype(mx.float16)
    rounded = gradient()
    gap = sum(float(np.square(rounded[name] - exact[name]).sum()) for name in exact)
    whole = sum(float(np.square(values).sum()) for values in exact.values())
    assert gap < 0.02**2 * whole
    assert losses[1] == pytest.approx(losses[0], rel=0.05, abs=0.02 * size)


def test_buckets_are_few_and_near() -> None:
    for per_octave in (2, 4):
        made = [bucket(n, per_octave) for n in range(1, 4097)]
        assert all(n <= size <= n * (1 + 1 / per_octave) for n, size in enumerate(made, start=1))
        assert made == sorted(made)
        assert len(set(made)) <= 12 * per_octave + 1
