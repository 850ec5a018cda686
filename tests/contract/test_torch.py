"""Laws of the PyTorch engine's own: large layers on a CPU, types of numbers, what needs a GPU."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from ictcli_torch import cpu as linear
from ictcli_torch import device
from ictcli_torch.decode import FixedDecoder, read
from ictcli_torch.optimizer import Optimizer
from ictcli_torch.plan import PACKED_INPUTS
from refusing import refused
from safetensors.numpy import load_file, save_file
from torch.overrides import TorchFunctionMode

from ictcli.algorithm.objective import Objective
from ictcli.engine.dtype import PACKING
from ictcli.engine.shape import read_shape
from ictcli.errors import EngineMissingError
from ictcli.recipe.tables import AdapterSettings, EngineSettings
from ictcli.types import Rollouts

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_torch, reader
from .lowrank import LORA
from .models import make_multimodal
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
def test_first_tokens_alone_are_trained_behind_shared_prompts(tiny_model: Path) -> None:
    """Then the last MLP of the responses runs at no place."""
    update = plain_update(long_prompts())
    update.weights[:, 0], update.weights[:, 1:] = 1, 0
    sharing, plain = make_torch(tiny_model, SMOOTH), make_torch(tiny_model, SMOOTH)
    plain.passes.share = False
    one, other = (engine.update(update, LR) for engine in (sharing, plain))
    assert one.tokens < other.tokens
    assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-5)


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


def test_a_float32_cache_of_16_bits_samples_the_same(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: keys and values are converted once, and not in every step."""
    engine = make_torch(tiny_model, SMOOTH, LORA, dtype="bfloat16")
    train(engine, made_up(), 2)
    sampled = list[Rollouts]()
    for attention, kept in ((linear.ATTENTION, torch.float32), ("another", torch.bfloat16)):
        monkeypatch.setattr("ictcli_torch.cache.ATTENTION", attention)
        assert read(engine.model, PROMPTS).cache.layers[0].keys.dtype == kept
        sampled.append(engine.generate(PROMPTS, GROUP, SAMPLING, 7))
    np.testing.assert_array_equal(sampled[0].tokens, sampled[1].tokens)
    np.testing.assert_array_equal(sampled[0].logp, sampled[1].logp)


@pytest.mark.skipif(sys.platform != "linux", reason="resident bytes that the kernel counts")
def test_a_packed_weight_takes_what_is_planned() -> None:
    if not linear.has_fbgemm():
        pytest.skip("PyTorch has no FBGEMM here")
    inputs, outputs = PACKED_INPUTS + 1, 40_960  # all larger than what glibc keeps on the heap
    weight = torch.zeros(outputs, inputs)
    before = psutil.Process().memory_info().rss
    packed = linear.packed(weight)
    grown = psutil.Process().memory_info().rss - before
    assert packed is not None
    # what is freed is not given back at once; without the filling it were half of this
    assert grown == pytest.approx(2 * 2 * PACKED_INPUTS * outputs, rel=0.45)


def test_gradient_checkpointing_computes_blocks_again(tiny_model: Path) -> None:
    """Once more on the way back, but for the last. Sampling does not."""
    rollouts, calls = made_up(), list[int]()
    for checkpointing in (False, True):
        engine = make_torch(tiny_model, SMOOTH, LORA, gradient_checkpointing=checkpointing)
        count: list[int] = []
        mlp, counted = engine.model.model.layers[0].mlp, lambda *_, count=count: count.append(1)
        with mlp.register_forward_pre_hook(counted):
            engine.update(plain_update(rollouts), 1e-3)
        calls.append(len(count))
        count.clear()
        mlp.act_fn.register_forward_pre_hook(counted)
        sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
        assert len(count) == sampled.tokens.shape[1]
    assert calls[1] == 2 * calls[0] > 0


@pytest.mark.parametrize("adapter", [None, LORA], ids=["full", "lora"])
def test_the_gradient_is_that_of_an_update_that_keeps_all(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, adapter: AdapterSettings | None
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


def test_a_gpu_without_bitsandbytes_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    settings = EngineSettings(load_in_4bit=True)
    with refused(hint="pip install", kind=EngineMissingError):
        device.check_device(torch.device("cuda"), settings, SMOOTH, adapted=True)


def test_a_device_is_waited_for_where_its_numbers_are_needed(tiny_model: Path) -> None:
    """On `meta`, which computes nothing but refuses tensors of another device: what comes back from
    it is zeros. Twice a token at fixed shapes, and a fixed number of times a pass."""
    waits: list[str] = []

    class Device(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name, first = func.__name__, args[0] if args else None
            back = name in ("cpu", "item", "tolist", "__float__", "__int__", "__bool__")
            if back and isinstance(first, torch.Tensor) and first.is_meta:
                waits.append(name)
                return getattr(torch.zeros(first.shape, dtype=first.dtype), name)()
            return func(*args, **(kwargs or {}))

    engine, rollouts = make_torch(tiny_model, SMOOTH, LORA, dtype="bfloat16"), made_up()
    engine.model.to("meta").set_attn_implementation("sdpa")
    engine.lockstep = partial(engine.lockstep, decoder=FixedDecoder)
    with Device():
        engine.optimizer = Optimizer(engine.model, SMOOTH)
        found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
        assert len(waits) <= 2 * found.tokens.shape[1] + len(WANTED)
        for chunk, share in ((1 << 20, True), (8, False)):
            engine.passes.chunk, engine.passes.share = chunk, share
            waits.clear()
            engine.gradient(plain_update(rollouts))
            assert len(waits) <= 4


def test_auto_is_float32_and_the_plan_finds_what_a_multimodal_model_is_stored_in(
    tmp_path: Path,
) -> None:
    """Some say it of the language model, and some of the whole."""
    path = make_multimodal(tmp_path) / "config.json"
    config = json.loads(path.read_text())
    text = config["text_config"]
    for place in (config, text):
        for each in (config, text):
            each.pop("dtype", None)
        place["dtype"] = "bfloat16"
        path.write_text(json.dumps(config))
        assert reader("torch", tmp_path, dtype="auto").describe()["dtype"] == "float32"
        assert read_shape(str(tmp_path)).dtype == "bfloat16"


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
