"""Laws of the MLX engine on models of several kinds: their caches, masks and layers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.types import Sampling

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, require
from .dense import DenseTrainer
from .models import make_capped, make_kind, make_multimodal, make_recurrent
from .oracle import Oracle
from .test_generate import same
from .test_mlx import make_mlx
from .test_update_dense import against_dense
from .training import LR, PLAIN, SMOOTH, advantages, logp_of, sparse_weights, train


@pytest.fixture
def mlx_engine(model: Path) -> Any:
    return make_mlx(model)


def test_prompts_of_one_length_have_plain_caches(mlx_engine: Any) -> None:
    """And those of several the batched kind, which knows each row's padding."""
    from ictcli_mlx.cache import new_cache

    plain = [type(cache).__name__ for cache in new_cache(mlx_engine.model, [3, 3])]
    batched = [type(cache).__name__ for cache in new_cache(mlx_engine.model, [3, 2])]
    assert set(plain) <= {"KVCache", "RotatingKVCache"}
    assert batched == [f"Batch{name}" for name in plain]


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-6), ("bfloat16", 2**-8)])
@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dims", [8, 16])
def test_rotation_by_a_shared_matrix_is_the_models_own(
    dims: int, traditional: bool, dtype: str, rounding: float
) -> None:
    require("mlx")
    import mlx.core as mx
    import mlx.nn as nn
    from ictcli_mlx.rotary import SharedRoPE

    for offset, base in [(0, 1e4), (5, 1e4), (5, 1e6), (3000, 1e6)]:
        rope = nn.RoPE(dims, traditional, base)
        x = mx.random.normal((3, 2, 1, 16)).astype(getattr(mx, dtype))
        found, wanted = SharedRoPE(rope)(x, offset), rope(x.astype(mx.float32), offset)
        assert found.dtype == x.dtype
        close = np.array(found.astype(mx.float32)), np.array(wanted)
        np.testing.assert_allclose(*close, rtol=rounding, atol=1e-6)


@pytest.mark.parametrize("lengths", [(1, 2), (2, 2, 5), (1, 1, 6), (4, 4, 1), (9, 9, 2)])
def test_both_kinds_of_cache_give_the_same(mlx_engine: Any, lengths: tuple[int, ...]) -> None:
    """Rows of prompts that stand alone, beside others of their length, and beside longer ones."""
    rng = np.random.default_rng(0)
    prompts = [tuple(rng.integers(2, 17, length).tolist()) for length in lengths]
    together = mlx_engine.generate(prompts, GROUP, SAMPLING, 5, WANTED)
    for place, prompt in enumerate(prompts):
        alone = mlx_engine.generate([prompt] * len(prompts), GROUP, SAMPLING, 5, WANTED)
        same(together.groups(place, place + 1), alone.groups(place, place + 1))


@pytest.mark.parametrize("tokens", [1, 8, 12])
@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[1:2] * 3], ids=["several", "one length"])
def test_prompts_read_in_chunks_are_the_same(
    mlx_engine: Any, monkeypatch: pytest.MonkeyPatch, prompts: Any, tokens: int
) -> None:
    wanted = mlx_engine.generate(prompts, GROUP, SAMPLING, 3, WANTED)
    monkeypatch.setattr("ictcli_mlx.sample.PREFILL_TOKENS", tokens)
    same(mlx_engine.generate(prompts, GROUP, SAMPLING, 3, WANTED), wanted)


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1] * 4], ids=["several", "one length"])
def test_a_growing_cache_gives_what_plain_passes_give(
    model: Path, mlx_engine: Any, prompts: Any
) -> None:
    """Past the first 256 steps, the first chunk of the cache's storage."""
    long = Sampling(270, temperature=0.7)
    free = mlx_engine.generate(prompts, 6, long, 5).tokens
    written = (free[:, :, None] == np.arange(18)).any(axis=1).sum(axis=0)  # by how many rows
    stop = int(np.where(written < len(free), written, 0).argmax())  # the most, and not all
    found = mlx_engine.generate(prompts, 6, replace(long, stop_ids=(stop,)), 5)
    assert found.lengths.max() == 270
    assert found.lengths.min() < 256
    np.testing.assert_allclose(found.logp, Oracle(model).logp(found, 0.7), atol=3e-5)


def test_recurrent_layers_sample_and_learn(hybrid_model: Path) -> None:
    """Their state goes with its row, and padding stays out of it."""
    engine, oracle = make_mlx(hybrid_model, SMOOTH), Oracle(hybrid_model)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    assert len(set(found.lengths.tolist())) > 2
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=2e-5)
    wanted = oracle.stats(found)["uniqueness"]
    np.testing.assert_allclose(found.stats["uniqueness"], wanted, atol=2e-5)
    dense, rollouts = DenseTrainer(hybrid_model, SMOOTH), made_up()
    weights = sparse_weights(rollouts)
    for step in range(3):
        A = advantages(rollouts, step)
        report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
        plain = dense.update(Update(rollouts, weights, A, PLAIN), LR)
        assert report.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
        trained = (weights != 0) & (A != 0)[:, None]
        np.testing.assert_allclose(report.logp[trained], plain.logp[trained], atol=2e-5)


def test_a_model_without_attention_samples_what_it_evaluates(tmp_path: Path) -> None:
    """Mamba, which the torch engine refuses."""
    folder = make_recurrent(tmp_path)
    engine = make_mlx(folder)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    np.testing.assert_allclose(found.logp, Oracle(folder).logp(found, 1.0), atol=2e-5)
    np.testing.assert_allclose(found.logp, logp_of(engine, found), atol=2e-5)


def test_recurrent_layers_are_exported_as_transformers_reads_them(
    hybrid_model: Path, tmp_path: Path
) -> None:
    """mlx-lm turns the weights of a convolution round as it loads them."""
    engine, rollouts = make_mlx(hybrid_model, SMOOTH), made_up()
    train(engine, rollouts, 1)
    engine.export(tmp_path)
    now = logp_of(engine, rollouts)
    np.testing.assert_array_equal(logp_of(make_mlx(tmp_path), rollouts), now)
    np.testing.assert_allclose(Oracle(tmp_path).logp(rollouts, 1.0), now, atol=1e-4)


@pytest.fixture(scope="module")
def capped_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlx-lm's Gemma 2 has no sliding windows: one that no sequence reaches."""
    return make_capped(tmp_path_factory.mktemp("models") / "capped", window=128)


def test_soft_caps_are_kept(capped_model: Path, tmp_path: Path) -> None:
    """Of attention and of logits, after a head that sees few places."""
    engine, oracle, rollouts = make_mlx(capped_model), Oracle(capped_model), made_up()
    found = engine.logits(rollouts, rollouts.valid)
    assert 2 < np.abs(found).max() < 3
    np.testing.assert_allclose(found, oracle.logits(rollouts, rollouts.valid), atol=5e-5)
    prompts = [PROMPTS[0], PROMPTS[0][::-1]]
    sampled = engine.generate(prompts, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(sampled.logp, oracle.logp(sampled, 1.0), atol=2e-5)
    against_dense(make_mlx, capped_model, tmp_path)


@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:2]], ids=["4", "2"])
def test_prompts_of_several_lengths_are_right_or_refused(
    capped_model: Path, prompts: Any, group: int
) -> None:
    """mlx-lm's Gemma 2 takes no mask of a batch: attention would mask heads in place of rows."""
    engine = make_mlx(capped_model)
    try:
        found = engine.generate(prompts, group, SAMPLING, 7)
    except UserError as error:
        assert error.hint
    else:
        np.testing.assert_allclose(found.logp, Oracle(capped_model).logp(found, 1.0), atol=2e-5)


EXPERTS: Any = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}
MAMBA: Any = {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16}
GEMMA: Any = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5}
PAIRS = ["sliding_attention", "full_attention"] * 2


@pytest.mark.parametrize(
    ("kind", "more", "close"),
    [
        ("gpt2", {"num_key_value_heads": 4}, 2e-5),
        ("gpt_neox", {"intermediate_size": 128, "num_key_value_heads": 4}, 5e-3),
        ("qwen3_moe", {"num_experts": 4, **EXPERTS}, 2e-5),
        ("falcon_h1", {"mamba_n_groups": 1, "mamba_chunk_size": 8, **MAMBA}, 2e-5),
        ("gemma3_text", {**GEMMA, "num_hidden_layers": 4, "layer_types": PAIRS}, 5e-3),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_transformers_5_saves_is_read_as_it_reads_it(
    tmp_path: Path, kind: str, more: dict[str, Any], close: float
) -> None:
    """Whatever it calls its settings and weights. mlx-lm's GELU of NeoX is approximate, and its
    Gemma rounds the embedding's scale."""
    folder, rollouts = make_kind(tmp_path, kind, **more), made_up()
    found = logp_of(make_mlx(folder), rollouts)
    np.testing.assert_allclose(found, Oracle(folder).logp(rollouts, 1.0), atol=close)


def test_layers_in_another_order_than_mlx_lms_are_refused(tmp_path: Path) -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    folder = make_kind(tmp_path, "gemma3_text", num_hidden_layers=4, layer_types=kinds, **GEMMA)
    with pytest.raises(UserError, match=r"config\.json.* other layers"):
        make_mlx(folder)


@pytest.mark.parametrize("rope", ["default", "linear"])
def test_the_language_model_of_a_multimodal_one(tmp_path: Path, rope: str) -> None:
    """Gemma 3, whose settings as a language model stand one level down: the rotary ones too. mlx-lm
    rounds its embedding's scale to bfloat16."""
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = make_multimodal(tmp_path)
    config = AutoConfig.from_pretrained(folder)
    text = config.text_config
    text.num_hidden_layers, text.layer_types = 6, ["sliding_attention"] * 5 + ["full_attention"]
    scaled = {} if rope == "default" else {"factor": 8.0}
    text.rope_parameters["full_attention"] = {"rope_theta": 1e6, "rope_type": rope, **scaled}
    config.vocab_size = text.vocab_size  # mlx-lm goes by it
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    engine, oracle, rollouts = make_mlx(folder), Oracle(folder), made_up()
    assert engine.context == 128
    assert engine.describe()["vocabulary"] == 18
    np.testing.assert_allclose(logp_of(engine, rollouts), oracle.logp(rollouts, 1.0), atol=5e-3)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=5e-3)
    assert train(engine, rollouts, 1)[0].stepped
