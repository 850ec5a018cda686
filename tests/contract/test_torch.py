"""Laws of the PyTorch engine's own: large layers on a CPU, types of numbers, what needs a GPU."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ictcli_torch import cpu as linear
from refusing import refused
from safetensors.numpy import load_file, save_file

from ictcli.algorithm.objective import Objective
from ictcli.engine.dtype import PACKING
from ictcli.errors import EngineMissingError
from ictcli.recipe.tables import NewAdapters
from ictcli.types import Rollouts

from .conftest import GROUP, PROMPTS, SAMPLING, made_up, make_torch
from .lowrank import LORA
from .oracle import Oracle
from .test_shared_prompts import long_prompts
from .test_update import against_dense
from .training import LR, SMOOTH, apart, logp_of, plain_update, state, train, weights_of


@pytest.fixture
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every linear layer by oneDNN, however small."""
    if not linear.available():
        pytest.skip("this PyTorch has no oneDNN for this machine")
    monkeypatch.setattr(linear, "LARGE", 0)


@pytest.mark.usefixtures("by_onednn")
def test_large_layers_compute_the_model_and_its_gradient(model: Path) -> None:
    engine, oracle = make_torch(model), Oracle(model)
    assert "LargeLinear" in {type(m).__name__ for m in engine.model.modules()}
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    np.testing.assert_allclose(found.logp, oracle.logp(found, 1.0), atol=2e-5)
    against_dense(make_torch, model, Objective(kl=0.2, entropy=0.1))


@pytest.mark.usefixtures("by_onednn")
def test_arranged_weights_sample_what_plain_ones_do(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After training too; recomputing engines do without, and none is kept."""
    monkeypatch.setattr("ictcli_torch.engine.WORTH_ARRANGING", 1)
    count, real = [0], linear._product

    def counted(x: Any, weight: Any, *more: Any) -> Any:
        count[0] += weight.is_mkldnn
        return real(x, weight, *more)

    monkeypatch.setattr("ictcli_torch.cpu._product", counted)
    sampled = list[Rollouts]()
    for recompute in (False, True):
        engine = make_torch(tiny_model, SMOOTH, gradient_checkpointing=recompute)
        train(engine, made_up(), 2)
        count[0] = 0
        sampled.append(engine.generate(PROMPTS, GROUP, SAMPLING, 7, ("uniqueness",)))
        assert (count[0] > 0) == (not recompute)
        assert all(vars(m).get("arranged") is None for m in engine.model.modules())
    np.testing.assert_array_equal(sampled[0].tokens, sampled[1].tokens)
    np.testing.assert_allclose(sampled[0].logp, sampled[1].logp, atol=2e-5)


@pytest.mark.usefixtures("by_onednn")
def test_packed_weights_compute_model_and_gradient(tiny_model: Path, tmp_path: Path) -> None:
    """Those of a model stored in 16 bits, below adapters, and held no more in 32; others are not
    packed. What is exported is the same."""
    rounded = shutil.copytree(tiny_model, tmp_path / "model")
    arrays = load_file(rounded / "model.safetensors")
    halves = {name: array.astype(np.float16).astype(np.float32) for name, array in arrays.items()}
    save_file(halves, rounded / "model.safetensors", {"format": "pt"})
    for folder in (rounded, tiny_model):
        found = list[tuple[float, Rollouts, dict[str, Any]]]()
        for kernels in ("plain", *PACKING):
            engine = make_torch(folder, SMOOTH, LORA, kernels=kernels)
            held = sum(p.numel() for p in engine.model.parameters() if not p.is_meta)
            packs = [m for m in engine.model.modules() if getattr(m, "packed", None) is not None]
            assert bool(packs) == (kernels in PACKING and folder == rounded)
            assert not any(m.weight.is_meta for m in packs)  # models read them as well
            assert (held < engine.describe()["parameters"] / 2) == bool(packs)
            assert engine.describe()["kernels"] == kernels
            norm = train(engine, made_up(), 3)[-1].grad_norm
            sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
            found.append((norm, sampled, weights_of(engine)))
        plain = found[0]
        for norm, sampled, exported in found[1:]:
            assert norm == pytest.approx(plain[0], rel=1e-5)
            np.testing.assert_array_equal(sampled.tokens, plain[1].tokens)
            np.testing.assert_allclose(sampled.logp, plain[1].logp, atol=2e-5)
            assert apart(exported, plain[2]) < 1e-5


@pytest.mark.usefixtures("by_onednn")
def test_16_bits_below_adapters_are_the_model(tiny_model: Path) -> None:
    """By oneDNN where it multiplies them, with attention in float32 and no weight held twice;
    adapters and their gradients stay float32."""
    can = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # not without AVX-512
    engine, rollouts = make_torch(tiny_model, SMOOTH, LORA, dtype="bfloat16"), made_up()
    assert ("LargeLinear" in {type(m).__name__ for m in engine.model.modules()}) == can
    assert engine.model.config._attn_implementation == "ictcli_float32"
    with linear.arranged(engine.model):
        assert all(vars(m).get("arranged") is None for m in engine.model.modules())
    before = logp_of(engine, rollouts)
    expected = Oracle(tiny_model).logp(rollouts, 1.0)
    np.testing.assert_allclose(before, expected, atol=0.2)  # of weights with 8 bits
    train(engine, rollouts, 2)
    assert np.abs(logp_of(engine, rollouts) - before).max() > 0.2
    assert {tensor.dtype for tensor in engine.trained_weights().values()} == {torch.float32}


@pytest.mark.parametrize("adapter", [None, LORA], ids=["full", "lora"])
def test_the_gradient_is_that_of_an_update_that_keeps_all(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, adapter: NewAdapters | None
) -> None:
    """To the bit where activations of MLPs are made again, of each block but the last. Keys and
    values that are not repeated are summed in another order."""
    monkeypatch.setattr("ictcli_torch.engine.SMALL", 0)
    engines, counts = list[Any](), list[int]()
    for change in ({}, {"UNREPEATED": "of no effect"}, {"is_gated": lambda _: False}):
        for name, value in change.items():
            monkeypatch.setattr(f"ictcli_torch.model.{name}", value)
        engine, count = make_torch(tiny_model, SMOOTH, adapter), list[int]()
        activation = engine.model.model.layers[0].mlp.act_fn
        activation.register_forward_hook(lambda *_, count=count: count.append(1))
        engine.update(plain_update(long_prompts()), LR)
        engines.append(engine)
        counts.append(len(count))
    assert state(engines[1]) == state(engines[2])
    assert counts[1] == 3 * counts[2] > 0
    assert apart(weights_of(engines[0]), weights_of(engines[1])) < 1e-6


def test_what_an_engine_or_a_device_has_not_is_refused(tiny_model: Path) -> None:
    with refused("load_in_4bit", kind=EngineMissingError):
        make_torch(tiny_model, SMOOTH, LORA, load_in_4bit=True)
    with refused("memory_limit"):
        make_torch(tiny_model, memory_limit=8.0)
    with refused("cannot be trained"):
        make_torch(tiny_model, SMOOTH, load_in_4bit=True)


@pytest.mark.parametrize(
    ("trained", "resumed"), [("float32", "bfloat16"), ("bfloat16", "float32")], ids=str
)
def test_a_run_goes_on_in_another_type(
    tiny_model: Path, tmp_path: Path, trained: str, resumed: str
) -> None:
    """What was trained comes back unrounded, in masters or in weights, and its moments with it."""
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
