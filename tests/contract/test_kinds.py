"""Laws of every engine on models of several kinds: their caches, masks and layers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.algorithm.objective import Objective
from ictcli.types import Sampling
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, MakeEngine, made_up
from .models import make_capped, make_multimodal, make_recurrent
from .oracle import Oracle
from .test_update_dense import against_dense
from .training import logp_of, train


def sampled_as(oracle: Oracle, engine: Any, close: float = 2e-5) -> None:
    """What the engine samples, and its uniqueness, are the oracle's."""
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    assert len(set(found.lengths.tolist())) > 2
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=close)
    wanted = oracle.stats(found)["uniqueness"]
    np.testing.assert_allclose(found.stats["uniqueness"], wanted, atol=close)


@pytest.mark.parametrize("model", first(["sliding", "tied", "untied"]), indirect=True)
def test_a_growing_cache_gives_what_plain_passes_give(make_engine: MakeEngine, model: Path) -> None:
    """Past the first 256 steps, where the storage of every kind of cache has grown."""
    engine, long = make_engine(model), Sampling(270, temperature=0.7)
    free = engine.generate(PROMPTS[:2], 3, long, 5).tokens
    written = (free[:, :, None] == np.arange(18)).any(axis=1).sum(axis=0)  # by how many rows
    stop = int(np.where(written < len(free), written, 0).argmax())  # the most, and not all
    found = engine.generate(PROMPTS[:2], 3, replace(long, stop_ids=(stop,)), 5)
    assert found.lengths.max() == 270 and found.lengths.min() < 256
    np.testing.assert_allclose(found.logp, Oracle(model).logp(found, 0.7), atol=3e-5)


@pytest.mark.parametrize("rope", first(["linear", "default"]))
def test_the_language_model_of_a_multimodal_one(
    make_engine: MakeEngine, engine_name: str, tmp_path: Path, rope: str
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


def test_soft_caps_and_windows_are_kept(
    make_engine: MakeEngine, engine_name: str, tmp_path: Path
) -> None:
    """Caps of attention and of logits, after a head that sees few places. mlx-lm's Gemma 2 has no
    windows, and takes no mask of a batch: its prompts of one length are decoded together."""
    folder = make_capped(tmp_path / "capped", 128 if engine_name == "mlx" else 5)
    engine, oracle, rollouts = make_engine(folder), Oracle(folder), made_up()
    logits = engine.logits(rollouts, rollouts.valid)
    assert 2 < np.abs(logits).max() < 3
    np.testing.assert_allclose(logits, oracle.logits(rollouts, rollouts.valid), atol=5e-5)
    sampled_as(oracle, engine)
    against_dense(make_engine, folder, tmp_path / "weights", Objective(entropy=0.2))


def test_recurrent_layers_sample_and_learn(
    make_engine: MakeEngine, hybrid_model: Path, tmp_path: Path
) -> None:
    """Their state goes with its row, and padding stays out of it."""
    sampled_as(Oracle(hybrid_model), make_engine(hybrid_model))
    against_dense(make_engine, hybrid_model, tmp_path)


def test_a_model_without_attention_samples_what_it_evaluates_or_is_refused(
    make_engine: MakeEngine, engine_name: str, tmp_path: Path
) -> None:
    """Mamba's cache is none that the torch engine hands it: each token would forget the others."""
    folder = make_recurrent(tmp_path)
    if engine_name == "mlx":
        found = make_engine(folder).generate(PROMPTS, GROUP, SAMPLING, 7)
        np.testing.assert_allclose(found.logp, Oracle(folder).logp(found, 1.0), atol=2e-5)
        return
    with refused("does not sample what it evaluates", hint="--backend mlx"):
        make_engine(folder)
