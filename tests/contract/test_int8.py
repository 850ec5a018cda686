"""Sampling from weights of 8 bits: their products, what they leave alone, and the loss."""

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ictcli_torch.cpu import ACTIVATIONS, WEIGHTS, Rounded

from ictcli.algorithm.objective import SAMPLER_CAP
from ictcli.engine.dtype import X86
from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.planning.preflight import recipe_notes
from ictcli.recipe import load_recipe
from ictcli.recipe.tables import AdapterSettings, OptimizerSettings
from ictcli.types import LOGP, Sampling

from .conftest import MakeEngine, build, made_up, make_mlx
from .lowrank import DORA, LORA
from .models import make_kind
from .test_generate import same
from .training import LR, PLAIN, SMOOTH, advantages, apart, sparse_weights, state, weights_of

needs_x86 = pytest.mark.skipif(platform.machine() not in X86, reason="the kernels are x86's")
SIZES = st.tuples(*(st.integers(1, 70) for _ in range(3)))


@needs_x86
@given(SIZES, st.integers(0, 99), st.sampled_from([1e-6, 1.0, 1e6]))
def test_a_product_is_that_of_the_whole_numbers(
    sizes: tuple[int, int, int], seed: int, scale: float
) -> None:
    """In float64, all of the largest size too, where 16 bits would not hold two products."""
    rows, inputs, outputs = sizes
    draws = torch.Generator().manual_seed(seed)
    W = torch.randn((outputs, inputs), generator=draws) * scale
    x = torch.randn((1, rows, inputs), generator=draws)
    x[:, ::2] = x[:, ::2].sign()  # every activation the largest
    W[::2] = scale
    x[:, -1] = 0.0
    rounded = Rounded(W)
    size = x.abs().amax(-1, keepdim=True).double().clamp(min=1e-30) / ACTIVATIONS
    scales = W.abs().amax(1).double() / WEIGHTS
    whole = (W / scales[:, None]).round() @ (x[0] / size[0]).round().double().t()
    expected = whole.t() * size[0] * scales
    got = rounded.product(None, x)[0].double()
    assert (got - expected).abs().max() <= 1e-5 * max(expected.abs().max(), 1e-30)


@pytest.mark.parametrize(
    ("name", "adapted"),
    [
        pytest.param("torch", False, marks=needs_x86),
        ("mlx", True),
        pytest.param("torch", True, marks=[needs_x86, pytest.mark.thorough]),
        pytest.param("mlx", False, marks=pytest.mark.thorough),
    ],
)
def test_what_samples_is_near_the_model_and_the_model_is_as_it_was(
    name: str, tmp_path: Path, adapted: bool
) -> None:
    """After updates as well: weights that change are rounded anew. What a fresh engine restores
    samples the same to the bit."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2}
    folder, prompts = make_kind(tmp_path / "model", "qwen2", **sizes), [(5, 6, 7)]
    adapter = AdapterSettings(kind="lora", rank=4) if adapted else None
    engine, fresh = (build(name, folder, OptimizerSettings(), adapter) for _ in range(2))
    own = Sampling(12, stop_ids=())
    eights = replace(own, sampler="int8")
    for _ in range(2):
        rollouts = engine.generate(prompts, 8, eights, seed=3)
        exact = engine.score(rollouts, (LOGP,))[LOGP]
        gap = np.abs(exact - rollouts.logp)[rollouts.valid]
        assert 1e-5 < gap.mean() < 0.1
        again = engine.generate(prompts, 8, own, seed=3)
        np.testing.assert_allclose(engine.score(again, (LOGP,))[LOGP], again.logp, atol=1e-4)
        some = made_up()
        engine.update(Update(some, sparse_weights(some), advantages(some), PLAIN), 0.05)
    state(engine, tmp_path / "saved")
    fresh.restore(tmp_path / "saved")
    one, other = (each.generate(prompts, 8, eights, seed=3) for each in (engine, fresh))
    same(one, other, atol=0)


@pytest.mark.parametrize("settings", [{"adapter": DORA}, {"adapter": LORA, "load_in_4bit": True}])
def test_mlx_refuses_8_bits_where_they_would_save_nothing(
    tiny_model: Path, settings: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match="packed, or below DoRA"):
        make_mlx(tiny_model, sampler="int8", **settings)


def test_a_token_of_another_sampler_counts_by_the_ratio_up_to_a_bound(
    make_engine: MakeEngine, tmp_path: Path
) -> None:
    """As if its weight were multiplied, with either engine."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    logp = make_engine(optimizer=SMOOTH).score(rollouts, (LOGP,))[LOGP]
    moved = np.random.default_rng(0).normal(0, 1, logp.shape).astype(np.float32)
    factor = np.minimum(np.exp(moved), SAMPLER_CAP)
    one, other = make_engine(optimizer=SMOOTH), make_engine(optimizer=SMOOTH)
    report = one.update(Update(rollouts, weights, A, PLAIN, sampler_logp=logp - moved), LR)
    other.update(Update(rollouts, weights * factor, A, PLAIN), LR)
    assert apart(weights_of(one, tmp_path / "1"), weights_of(other, tmp_path / "2")) < 1e-5
    trained = (weights != 0) & (A != 0)[:, None]
    assert report.ratio_gap == pytest.approx(np.abs(moved[trained]).max(), abs=1e-3)


@pytest.mark.parametrize("where", ["engine.device=mps", "engine.shard=true"])
def test_where_there_is_no_such_sampler_it_is_refused(where: str) -> None:
    recipe = load_recipe("chain", ["engine.backend=torch", "engine.sampler=int8", where])
    with pytest.raises(UserError, match="by torch on an x86 CPU"):
        recipe_notes(recipe)
