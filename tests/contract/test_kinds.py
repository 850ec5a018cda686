"""Laws of every engine on models of several kinds: their caches, masks and layers, also across the
lengths at which a model's arithmetic changes: windows, chunks, rotary frequencies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.algorithm.objective import Objective
from ictcli.types import Sampling
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make, made_up, reader
from .models import make_capped, make_kind, make_multimodal, make_recurrent
from .oracle import Oracle
from .test_update import against_dense
from .training import logp_of, train


def sampled_as(oracle: Oracle, engine: Any, close: float = 2e-5) -> None:
    """What the engine samples, and its uniqueness, are the oracle's."""
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    assert len(set(found.lengths.tolist())) > 2
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=close)
    wanted = oracle.stats(found)["uniqueness"]
    np.testing.assert_allclose(found.stats["uniqueness"], wanted, atol=close)


@pytest.mark.parametrize("model", first(["sliding", "tied", "untied"]), indirect=True)
def test_a_growing_cache_gives_what_plain_passes_give(make_engine: Make, model: Path) -> None:
    """Past the first 256 steps, where the storage of every kind of cache has grown."""
    some_write = {"sliding": 3, "tied": 17, "untied": 2}[model.name]  # but not all
    long = Sampling(270, temperature=0.7, stop_ids=(some_write,))
    found = make_engine(model).generate(PROMPTS[:2], 3, long, 5)
    assert found.lengths.max() == 270 and found.lengths.min() < 256
    np.testing.assert_allclose(found.logp, Oracle(model).logp(found, 0.7), atol=3e-5)


@pytest.mark.parametrize("rope", first(["linear", "default"]))
def test_the_language_model_of_a_multimodal_one(
    make_engine: Make, engine_name: str, tmp_path: Path, rope: str
) -> None:
    """Gemma 3, whose settings as a language model stand one level down: the rotary ones too. mlx-lm
    rounds its embedding's scale to bfloat16."""
    scaled = {"rope_type": rope, "rope_theta": 1e6} | ({"factor": 8.0} if rope == "linear" else {})
    folder = make_multimodal(
        tmp_path,
        num_hidden_layers=6,
        layer_types=["sliding_attention"] * 5 + ["full_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": scaled,
        },
    )
    engine, oracle, rollouts = make_engine(folder), Oracle(folder), made_up()
    assert engine.context == 128 and engine.describe()["vocabulary"] == 18
    close = 5e-3 if engine_name == "mlx" else 5e-5
    np.testing.assert_allclose(logp_of(engine, rollouts), oracle.logp(rollouts, 1.0), atol=close)
    sampled_as(oracle, engine, close)
    assert train(engine, rollouts, 1)[0].stepped


def test_soft_caps_and_windows_count(make_engine: Make, engine_name: str, tmp_path: Path) -> None:
    """Caps of attention and of logits, after a head that sees few places. mlx-lm's Gemma 2 takes no
    mask of a batch."""
    folder = make_capped(tmp_path / "capped")
    if engine_name == "mlx":
        with refused(str(folder), hint="--backend torch"):
            make_engine(folder)
        return
    engine, oracle, rollouts = make_engine(folder), Oracle(folder), made_up()
    logits = engine.logits(rollouts, rollouts.valid)
    assert 2 < np.abs(logits).max() < 3
    np.testing.assert_allclose(logits, oracle.logits(rollouts, rollouts.valid), atol=5e-5)
    sampled_as(oracle, engine)
    against_dense(make_engine, folder, Objective(entropy=0.2))


def test_recurrent_layers_sample_and_learn(make_engine: Make, hybrid_model: Path) -> None:
    """Their state goes with its row, and padding stays out of it."""
    sampled_as(Oracle(hybrid_model), make_engine(hybrid_model))
    against_dense(make_engine, hybrid_model)


def test_a_model_without_attention_is_refused(make_engine: Make, tmp_path: Path) -> None:
    """Mamba's cache is none that the torch engine hands it, and mlx-lm's does not know padding."""
    folder = make_recurrent(tmp_path)
    with refused("differ between sampling and training", hint="--backend"):
        make_engine(folder)


AT = 16
"""Where it changes, of each of these models."""
LONG: Any = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": AT,
}
PHI: Any = {"rope_parameters": LONG, "original_max_position_embeddings": AT}
SLIDING: Any = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": AT}
MIXED: Any = {"layer_types": ["sliding_attention"] * 5 + ["full_attention"], "num_hidden_layers": 6}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Phi-3": ("phi3", PHI),
    "Mistral": ("mistral", {"sliding_window": AT}),
    "Gemma 3": ("gemma3_text", SLIDING | MIXED),
}


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, more = FAMILIES[request.param]
    return make_kind(tmp_path_factory.mktemp("models") / request.param, kind, **more)


@pytest.mark.parametrize("family", list(FAMILIES), indirect=True)
def test_what_is_sampled_is_what_is_evaluated_whatever_the_batch(
    engine_name: str, family: Path
) -> None:
    """It is what transformers gives each row alone. mlx-lm's Mistral has no window."""
    engine = reader(engine_name, family)
    assert engine.context == (AT if family.name == "Phi-3" else 128)
    tokens = np.random.default_rng(1).integers(2, 17, AT - 2).tolist()
    prompts = tokens, tokens[:1], tokens[:9]  # one ends before AT, beside shorter ones
    found = engine.generate(prompts, 3, Sampling(min(engine.context, 40) - AT + 2), 5)
    for tokens in (2048, 1):
        engine.budget.tokens = tokens
        np.testing.assert_allclose(logp_of(engine, found), found.logp, atol=3e-5)
    if (engine_name, family.name) != ("mlx", "Mistral"):
        np.testing.assert_allclose(found.logp, Oracle(family).logp(found, 1.0), atol=6e-3)


def test_a_context_beyond_the_models_is_refused(engine_name: str, tiny_model: Path) -> None:
    with refused("engine.context = 129 exceeds the 128 tokens"):
        reader(engine_name, tiny_model, context=129)
