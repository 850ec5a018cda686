"""Laws of the PyTorch engine's own: what it saves, and that saving changes nothing."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.engine import build_engine
from ictcli.engine.shape import read_shape
from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, has_cuda, made_up, reader, require
from .models import make_capped, make_multimodal, make_recurrent
from .oracle import Oracle
from .test_generate import same
from .test_update_dense import against_dense
from .training import PLAIN, advantages, logp_of, sparse_weights, train


def make_torch(
    folder: Path,
    optimizer: OptimizerSettings | None = None,
    adapter: AdapterSettings | None = None,
    **settings: Any,
) -> Any:
    require("torch")
    if settings.get("device") == "cuda" and not has_cuda("torch"):
        pytest.skip("PyTorch finds no CUDA GPU")
    given = {"backend": "torch", "device": "cpu", "dtype": "float32", "threads": 1, **settings}
    chosen = EngineSettings(**given)
    return build_engine(str(folder), chosen, optimizer or OptimizerSettings(), adapter)


@pytest.fixture
def torch_engine(model: Path) -> Any:
    return make_torch(model)


@pytest.fixture
def passes(torch_engine: Any) -> Iterator[list[tuple[tuple[int, ...], int]]]:
    """One entry a forward pass: the shape of its input ids, and the places its head saw."""
    found: list[tuple[tuple[int, ...], int]] = []
    shapes: list[tuple[int, ...]] = []
    model = torch_engine.model

    def enter(module: Any, args: Any, given: dict[str, Any]) -> None:
        if "forward" not in vars(module):  # else it only hands states to the head
            shapes.append(tuple(given["input_ids"].shape))

    def leave(module: Any, args: Any, logits: Any) -> None:
        found.append((shapes[-1], logits.numel() // logits.shape[-1]))

    handles = [
        model.get_decoder().register_forward_pre_hook(enter, with_kwargs=True),
        model.get_output_embeddings().register_forward_hook(leave),
    ]
    yield found
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("elements", [1, 500, 1 << 40])
def test_statistics_pooled_or_at_once_are_the_same(
    torch_engine: Any, monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    wanted = torch_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    monkeypatch.setattr("ictcli_torch.stats.PENDING_ELEMENTS", elements)
    same(torch_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED), wanted, atol=1e-6)


def test_statistics_cost_no_forward_pass(
    torch_engine: Any, passes: list[tuple[tuple[int, ...], int]]
) -> None:
    """One prefill a prompt, then a token a row for the rows still running; nothing else."""
    found = torch_engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    running = found.valid.sum(axis=0).tolist()
    longest = max(map(len, PROMPTS))
    assert passes[0] == ((len(PROMPTS), longest), len(PROMPTS))
    assert passes[1:] == [((alive, 1), alive) for alive in running[1:]]


def test_the_head_meets_weighted_places_only(
    torch_engine: Any, passes: list[tuple[tuple[int, ...], int]]
) -> None:
    """And a row runs no further than its last weight."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    weights[:, 6:] = 0
    torch_engine.passes.share = False
    report = torch_engine.update(Update(rollouts, weights, A, PLAIN), 0.0)
    assert sum(places for _, places in passes) == ((weights != 0) & (A != 0)[:, None]).sum()
    assert all(length <= max(map(len, PROMPTS)) + 6 for (_, length), _ in passes)
    assert report.tokens == sum(rows * length for (rows, length), _ in passes)


def test_logits_of_a_pass_are_bounded(
    torch_engine: Any,
    passes: list[tuple[tuple[int, ...], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rollouts = made_up()
    wanted = logp_of(torch_engine, rollouts)
    passes.clear()
    monkeypatch.setattr(torch_engine.passes, "chunk", 30)
    np.testing.assert_allclose(logp_of(torch_engine, rollouts), wanted, atol=1e-5)
    assert len(passes) > 4
    assert max(places for _, places in passes) <= 30


def test_a_growing_cache_gives_what_plain_passes_give(model: Path, torch_engine: Any) -> None:
    """Past the first chunk of the cache's storage, and past its doubling."""
    oracle = Oracle(model)
    long = replace(SAMPLING, max_tokens=90, stop_ids=(7,))
    found = torch_engine.generate(PROMPTS, GROUP, long, 5)
    assert found.lengths.max() > 70
    assert len(set(found.lengths.tolist())) > 2
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=2e-5)


def test_the_language_model_of_a_multimodal_one(tmp_path: Path) -> None:
    folder = make_multimodal(tmp_path)
    engine, oracle, rollouts = make_torch(folder), Oracle(folder), made_up()
    assert engine.context == 128
    assert engine.describe()["vocabulary"] == 18
    np.testing.assert_allclose(
        engine.logits(rollouts, rollouts.valid), oracle.logits(rollouts, rollouts.valid), atol=5e-5
    )
    assert train(engine, rollouts, 1)[0].stepped


@pytest.mark.parametrize("place", ["whole", "text"])
def test_auto_finds_what_a_multimodal_model_is_stored_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Some say it of the language model, and some of the whole. The plan goes by the same."""
    monkeypatch.setattr("ictcli.engine.dtype.multiplies_bfloat16", lambda: True)
    path = make_multimodal(tmp_path) / "config.json"
    config = json.loads(path.read_text())
    texts = {"whole": config, "text": config["text_config"]}
    for text in texts.values():
        text.pop("dtype", None)
    texts[place]["dtype"] = "bfloat16"
    path.write_text(json.dumps(config))
    assert reader("torch", tmp_path, dtype="auto").describe()["dtype"] == "bfloat16"
    assert read_shape(str(tmp_path)).dtype == "bfloat16"


def test_soft_caps_and_windows_are_kept(tmp_path: Path) -> None:
    """Caps of attention and of logits, after a head that sees few places."""
    folder = make_capped(tmp_path / "capped")
    engine, oracle, rollouts = make_torch(folder), Oracle(folder), made_up()
    logits = engine.logits(rollouts, rollouts.valid)
    assert 2 < np.abs(logits).max() < 3
    np.testing.assert_allclose(logits, oracle.logits(rollouts, rollouts.valid), atol=5e-5)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=2e-5)
    wanted = oracle.stats(found)["uniqueness"]
    np.testing.assert_allclose(found.stats["uniqueness"], wanted, atol=2e-5)
    against_dense(make_torch, folder, tmp_path / "weights", Objective(entropy=0.2))


def test_a_model_that_samples_something_else_is_refused(tmp_path: Path) -> None:
    """Mamba's cache is none that this engine hands it: each token would forget those before."""
    with pytest.raises(UserError) as caught:
        make_torch(make_recurrent(tmp_path))
    assert "does not sample what it evaluates" in caught.value.message
    assert "--backend mlx" in caught.value.hint


def test_recurrent_layers_sample_and_learn(hybrid_model: Path, tmp_path: Path) -> None:
    """Their state goes with its row, and padding on the left stays out of it."""
    engine, oracle = make_torch(hybrid_model), Oracle(hybrid_model)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    assert len(set(found.lengths.tolist())) > 2
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=2e-5)
    wanted = oracle.stats(found)["uniqueness"]
    np.testing.assert_allclose(found.stats["uniqueness"], wanted, atol=2e-5)
    against_dense(make_torch, hybrid_model, tmp_path)


@pytest.mark.parametrize(
    ("trained", "resumed"), [("float32", "bfloat16"), ("bfloat16", "float32")], ids=str
)
def test_a_run_goes_on_in_another_type(
    tiny_model: Path, tmp_path: Path, trained: str, resumed: str
) -> None:
    """What was trained comes back unrounded, in masters or in weights, and its moments with it."""
    import torch

    engine, rollouts = make_torch(tiny_model, dtype=trained), made_up()
    train(engine, rollouts, 2)
    engine.save(tmp_path)
    other = make_torch(tiny_model, dtype=resumed)
    other.restore(tmp_path)
    own, found = engine.optimizer, other.optimizer
    for name, master in own.masters.items():
        assert torch.equal(found.masters[name], master), name
        assert torch.equal(other.model.get_parameter(name), master.to(other.model.dtype)), name
        assert torch.equal(
            found.adamw.state[found.masters[name]]["exp_avg"], own.adamw.state[master]["exp_avg"]
        )
    assert train(other, rollouts, 1)[0].stepped
