"""Laws of the MLX engine's own: its caches and layers, its memory, and compiled kernels."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.errors import RunFailedError, UserError

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_mlx, require
from .models import GEMMA, make_kind
from .oracle import Oracle
from .test_generate import same
from .training import SMOOTH, logp_of, state, train


def test_a_pass_that_breaks_off_leaves_everything_as_it_was(
    tiny_model: Path, tmp_path: Path
) -> None:
    engine, rollouts = make_mlx(tiny_model, gradient_checkpointing=True), made_up()
    kinds = [type(module) for module in engine.model.modules()]
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
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
    again = make_mlx(tiny_model, gradient_checkpointing=True)
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
        with refused("MiB", hint="engine.memory_limit", kind=RunFailedError):
            call()
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


def test_the_limit_bounds_freed_buffers_and_is_mlx_s_own_too(tiny_model: Path) -> None:
    """They are kept for the next pass, and are memory too. Near its limit MLX finishes what it has
    begun before it begins more."""
    import mlx.core as mx

    engine = make_mlx(tiny_model, memory_limit=0.5)
    assert mx.set_memory_limit(mx.get_memory_limit()) == 2**29
    engine.generate(PROMPTS, GROUP, SAMPLING, 3)
    train(engine, made_up(), 1)
    assert mx.set_cache_limit(1 << 30) <= 2**29 // 8
    make_mlx(tiny_model)
    assert mx.get_memory_limit() > 2**30


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None, reason="MLX compiles for a CPU with g++")
def test_compiled_kernels_change_nothing() -> None:
    """The laws of updates over several steps, and of what is sampled."""
    laws = [Path(__file__).with_name(f"test_{name}.py") for name in ("update_dense", "generate")]
    environment = os.environ | {"MLX_COMPILE": "on", "HYPOTHESIS_PROFILE": "quick"}
    del environment["MLX_DISABLE_COMPILE"]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-k", "mlx", *laws]
    subprocess.run(command, env=environment, check=True)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-6), ("bfloat16", 2**-8)])
def test_rotation_by_a_shared_matrix_is_the_models_own(dtype: str, rounding: float) -> None:
    require("mlx")
    import mlx.core as mx
    import mlx.nn as nn
    from ictcli_mlx.rotary import SharedRoPE

    places = [(0, 1e4), (5, 1e4), (5, 1e6), (3000, 1e6)]
    for (offset, base), dims, traditional in product(places, (8, 16), (False, True)):
        rope = nn.RoPE(dims, traditional, base)
        x = mx.random.normal((3, 2, 1, 16)).astype(getattr(mx, dtype))
        found, wanted = SharedRoPE(rope)(x, offset), rope(x.astype(mx.float32), offset)
        assert found.dtype == x.dtype
        close = np.array(found.astype(mx.float32)), np.array(wanted)
        np.testing.assert_allclose(*close, rtol=rounding, atol=1e-6)


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[1:2] * 3], ids=["several", "one length"])
def test_prompts_read_in_chunks_are_the_same(
    model: Path, monkeypatch: pytest.MonkeyPatch, prompts: Any
) -> None:
    engine = make_mlx(model)
    wanted = engine.generate(prompts, GROUP, SAMPLING, 3, WANTED)
    for tokens in (1, 8, 12):
        monkeypatch.setattr("ictcli_mlx.sample.PREFILL_TOKENS", tokens)
        same(engine.generate(prompts, GROUP, SAMPLING, 3, WANTED), wanted)


EXPERTS: Any = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}
PAIRS = ["sliding_attention", "full_attention"] * 2


@pytest.mark.parametrize(
    ("kind", "more", "close"),
    [
        ("gpt2", {"num_key_value_heads": 4}, 2e-5),
        ("qwen3_moe", {"num_experts": 4, **EXPERTS}, 2e-5),
        ("gemma3_text", {**GEMMA, "num_hidden_layers": 4, "layer_types": PAIRS}, 5e-3),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_transformers_5_saves_is_read_as_it_reads_it(
    tmp_path: Path, kind: str, more: dict[str, Any], close: float
) -> None:
    """Whatever it calls its settings and weights. mlx-lm's Gemma rounds the embedding's scale."""
    folder, rollouts = make_kind(tmp_path, kind, **more), made_up()
    found = logp_of(make_mlx(folder), rollouts)
    np.testing.assert_allclose(found, Oracle(folder).logp(rollouts, 1.0), atol=close)


def test_layers_in_another_order_than_mlx_lms_are_refused(tmp_path: Path) -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    folder = make_kind(tmp_path, "gemma3_text", num_hidden_layers=4, layer_types=kinds, **GEMMA)
    with pytest.raises(UserError, match=r"config\.json.* other layers"):
        make_mlx(folder)
