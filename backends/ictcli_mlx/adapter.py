"""Low-rank adapters by mlx-lm's tuner layers: put on, read, taken off, written, fused."""

import contextlib
import copy
import json
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters
from mlx_lm.utils import dequantize_model

from ictcli.engine import adapters
from ictcli.engine.dtype import OVERFLOWING, in_float16
from ictcli.engine.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from ictcli.recipe.tables import NewAdapters

from .files import flat, read_arrays, write_arrays
from .model import ADAPTED, cast, model_dtype


def put_on(model: Any, settings: NewAdapters, path: str) -> dict[str, Any]:
    """Freeze the model and give it new adapters; returns mlx-lm's adapter_config.json for a model
    read from `path`."""
    linear = [_linear_layers(layer) for layer in model.layers]
    chosen = adapters.choose_layers(settings, linear, getattr(model, "model_type", ""))
    config: dict[str, Any] = {
        "model": path,
        "fine_tune_type": "lora",
        "num_layers": settings.layers or len(model.layers),
        "lora_parameters": {
            "rank": settings.rank,
            "scale": settings.alpha / settings.rank,
            "dropout": 0.0,  # it would make the ratio of pi to pi_old noise
            "keys": sorted({name for _, name in chosen}),
        },
    }
    model.freeze()
    mx.random.seed(settings.seed)  # linear_to_lora_layers draws the first values of A
    linear_to_lora_layers(model, config["num_layers"], config["lora_parameters"])
    _draw(model, settings.seed)
    mx.eval(model.parameters())  # the draw is of this seed, not of a later one
    return config


def _draw(model: Any, seed: int) -> None:
    """Return the first values of A that every engine draws; those of experts are mlx-lm's own."""
    for block, layer in enumerate(model.layers):
        for name, module in layer.named_modules():
            if "lora_a" in module and module.lora_a.ndim == 2:
                inputs, rank = module.lora_a.shape
                module.lora_a = mx.array(
                    adapters.first_values(seed, f"{block}.{name}", inputs, rank)
                )


def _linear_layers(block: Any) -> list[str]:
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

    kinds = (nn.Linear, nn.QuantizedLinear, SwitchLinear, QuantizedSwitchLinear)
    return [name for name, module in block.named_modules() if isinstance(module, kinds)]


def read(model: Any, folder: Path, base: str) -> dict[str, Any]:
    """Put the adapters of a folder on a model that has none, of the fingerprint `base`; returns
    their adapter_config.json."""
    with adapters.reading(folder, "mlx", len(model.layers), base) as converted:
        config = adapters.read_config(converted)
        load_adapters(model, str(converted))
        expected = [n for n in flat(model.parameters()) if n.rsplit(".", 1)[-1] in ADAPTED]
        adapters.check_complete(expected, read_arrays(converted / ADAPTER_WEIGHTS))
        mx.eval(model.parameters())  # the files are read here, not in the first step
    model.eval()
    return config


def write(folder: Path, weights: dict[str, mx.array], config: dict[str, Any]) -> None:
    """Write adapters where `mlx_lm.generate --adapter-path` finds them."""
    write_arrays(folder / ADAPTER_WEIGHTS, weights)
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def taken_off(model: nn.Module) -> Generator[None]:
    """Take the adapters off within: the model is the reference policy of their run, without a
    second copy of the weights."""
    on = _adapted(model)
    plain = [(n, m.embedding if "embedding" in m else m.linear) for n, m in on]
    model.update_modules(tree_unflatten(plain))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(on))


@contextlib.contextmanager
def fused(model: Any) -> Generator[None]:
    """Fuse the adapters within: the model computes the same, but layers of 4, 8 or 16 bits also
    round what was trained."""
    dtype, before = model_dtype(model), _replaced(model)
    plain = [(name, module.fuse()) for name, module in _adapted(model)]
    for _, layer in plain:
        layer.set_dtype(dtype)
    model.update_modules(tree_unflatten(plain))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(before))


@contextlib.contextmanager
def whole(model: Any, kind: str) -> Generator[None]:
    """Give the model plain weights within, without adapters and quantised ones, in a type that
    rounds away nothing that was trained: float16 where that holds the weights, else float32."""
    dtype, before, held = model_dtype(model), _replaced(model), model.parameters()
    if not before:
        yield
        return
    fits = kind not in OVERFLOWING
    half = partial(mx.array.astype, dtype=mx.float16)
    plain: list[tuple[str, Any]] = []
    try:
        for name, module in before:
            layer, change = _plain(module)
            weight = layer.weight.astype(dtype) if change is None else layer.weight
            fits = fits and in_float16(weight, change, half=half)
            plain.append((name, _plain(module)[0]))  # anew: that one's numbers are computed, and go
        model.update_modules(tree_unflatten(plain))
        done = {f"{name}.weight" for name, _ in plain}
        others = (x for name, x in flat(model.parameters()).items() if name not in done)
        fits = fits and all(in_float16(x, half=half) for x in others if x.dtype == dtype)
        cast(model, mx.float16 if fits else mx.float32)
        yield
    finally:
        model.update_modules(tree_unflatten(before))
        model.update(held)


def _adapted(model: Any) -> list[tuple[str, Any]]:
    return [(name, module) for name, module in model.named_modules() if hasattr(module, "lora_a")]


def _plain(module: Any) -> tuple[Any, mx.array | None]:
    """Return an adapted or quantised layer as a plain one of float32, and what of its weight is the
    adapter's. What is below that is unpacked first: where some packings yield bfloat16, it would be
    rounded to it."""
    if not hasattr(module, "lora_a"):
        return _unpacked(module), None
    part = "embedding" if "embedding" in module else "linear"
    packed, below = module[part], _unpacked(module[part])
    module[part] = below
    try:
        layer = module.fuse()
    finally:
        module[part] = packed
    return layer, layer.weight - below.weight


def _unpacked(layer: Any) -> Any:
    """Return a copy of a layer without adapters, in float32."""
    exact = copy.copy(layer)
    exact.set_dtype(mx.float32)
    unpacked: Any = dequantize_model(nn.Sequential(exact))
    unpacked.set_dtype(mx.float32)
    return unpacked.layers[0]


def _replaced(model: Any) -> list[tuple[str, Any]]:
    """Return the modules that fusing or unpacking exchanges, the outermost of each."""
    adapted = [
        (name, module)
        for name, module in model.named_modules()
        if hasattr(module, "lora_a") or hasattr(module, "bits")
    ]
    outer = {name for name, _ in adapted}
    return [(n, m) for n, m in adapted if n.rpartition(".")[0] not in outer]
