"""Today's small families, each as a tiny random model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.recipe.tables import NewAdapters

from .conftest import ENGINES, GROUP, PROMPTS, SAMPLING, Make, made_up, make_mlx, reader
from .lowrank import LORA, exported_adapters
from .models import GEMMA, make_kind, make_qwen3_5
from .oracle import Oracle
from .test_kinds import sampled_as
from .training import SMOOTH, exported, logp_of, train

MAMBA = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}
MIXED = ["sliding_attention", "full_attention"]
TIED = {"tie_word_embeddings": True}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3": ("qwen3", TIED | {"head_dim": 8}),
    "SmolLM2": ("llama", TIED),
    "LFM2": ("lfm2", {"block_auto_adjust_ff_dim": False, "layer_types": ["conv", MIXED[1]]}),
    "Gemma 3": ("gemma3_text", GEMMA | {"layer_types": MIXED}),
    "SmolLM3": ("smollm3", TIED | {"no_rope_layers": [1, 0]}),
    "Falcon-H1": ("falcon_h1", MAMBA | {"head_dim": 8, "mamba_n_groups": 1}),
}


def make(family: str, folder: Path, **more: Any) -> Path:
    if family == "Qwen3.5":
        return make_qwen3_5(folder)
    kind, settings = FAMILIES[family]
    return make_kind(folder, kind, 2, **settings | more)


@pytest.mark.parametrize("family", [*FAMILIES, "Qwen3.5"])
@pytest.mark.parametrize("adapter", [None, LORA], ids=["all", "lora"])
def test_a_family_samples_learns_and_exports(
    make_engine: Make, engine_name: str, tmp_path: Path, family: str, adapter: NewAdapters | None
) -> None:
    """As transformers computes it, before and after; the other engine reads its adapters."""
    close = {"Gemma 3": 5e-3 if engine_name == "mlx" else 5e-5, "Qwen3.5": 5e-4}.get(family, 5e-5)
    folder, rollouts = make(family, tmp_path / "model"), made_up()
    engine, oracle = make_engine(folder, SMOOTH, adapter), Oracle(folder)
    sampled_as(oracle, engine, close)
    assert train(engine, rollouts, 1)[0].stepped
    trained = logp_of(engine, rollouts)
    assert np.abs(trained - oracle.logp(rollouts, 1.0)).max() > 0.05
    whole = exported(engine, tmp_path / "whole")
    np.testing.assert_allclose(trained, Oracle(whole).logp(rollouts, 1.0), atol=close)
    if adapter:
        alone = exported_adapters(engine, tmp_path / "adapters")
        other = reader(next(name for name in ENGINES if name != engine_name), alone)
        np.testing.assert_allclose(trained, logp_of(other, rollouts), atol=5e-3)
    elif family != "Qwen3.5" or engine_name == "mlx":  # torch writes a kind that mlx-lm lacks
        again = reader(engine_name, whole)
        np.testing.assert_allclose(trained, logp_of(again, rollouts), atol=close)


def test_smollm3_in_4_bits_trains_adapters(tmp_path: Path) -> None:
    """With PyTorch they take CUDA: see test_bitsandbytes."""
    folder = make("SmolLM3", tmp_path, hidden_size=64, intermediate_size=128)
    engine = make_mlx(folder, SMOOTH, LORA, load_in_4bit=True)
    assert engine.describe()["bits"] == [4]
    sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    np.testing.assert_allclose(logp_of(engine, sampled), sampled.logp, atol=5e-5)
    before = logp_of(engine, made_up())
    assert train(engine, made_up(), 1)[0].stepped
    assert np.abs(logp_of(engine, made_up()) - before).max() > 0.01


def test_what_takes_no_adapters_is_said(
    make_engine: Make, engine_name: str, tmp_path: Path
) -> None:
    folder = make("Falcon-H1", tmp_path / "falcon")
    named = LORA.model_copy(update={"targets": ("q_proj", "out_proj")})
    with refused("peft cannot adapt out_proj", "falcon_h1", hint="leave it out"):
        make_engine(folder, SMOOTH, named)
    if engine_name == "torch":
        folder = make_kind(tmp_path / "gpt2", "gpt2", n_embd=32, n_layer=2, n_head=4)
        with refused("gpt2 have no layer that can be adapted", hint="adapter.kind=none"):
            make_engine(folder, SMOOTH, LORA)
