"""Create, load, disable, fuse and write low-rank adapters, with mlx-lm's LoRA layers."""

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
    """Freeze the model and add new adapters to it. Return the contents of the adapter_config.json
    with which mlx-lm loads the adapters onto the model at `path`."""
    linear = [_linear_layers(layer) for layer in model.layers]
    chosen = adapters.choose_layers(settings, linear, getattr(model, "model_type", ""))
    config: dict[str, Any] = {
        "model": path,
        "fine_tune_type": "lora",
        "num_layers": settings.layers or len(model.layers),
        "lora_parameters": {
            "rank": settings.rank,
            "scale": settings.alpha / settings.rank,
            "dropout": 0.0,  # dropout would make the ratio pi / pi_old noisy
            "keys": sorted({name for _, name in chosen}),
        },
    }
    model.freeze()
    mx.random.seed(settings.seed)  # linear_to_lora_layers draws random values of A
    linear_to_lora_layers(model, config["num_layers"], config["lora_parameters"])
    _draw(model, settings.seed)
    mx.eval(model.parameters())  # draws A now, before anything sets another seed
    return config


def _draw(model: Any, seed: int) -> None:
    """Set each adapter's A to the initial values of all engines; experts keep mlx-lm's values."""
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
    """Load the adapters in `folder` onto a model that has none and whose weights have the
    fingerprint `base`. Return the contents of the adapters' adapter_config.json."""
    with adapters.reading(folder, "mlx", len(model.layers), base) as converted:
        config = adapters.read_config(converted)
        load_adapters(model, str(converted))
        expected = [n for n in flat(model.parameters()) if n.rsplit(".", 1)[-1] in ADAPTED]
        adapters.check_complete(expected, read_arrays(converted / ADAPTER_WEIGHTS))
        mx.eval(model.parameters())  # reads the files now, not in the first step
    model.eval()
    return config


def write(folder: Path, weights: dict[str, mx.array], config: dict[str, Any]) -> None:
    """Write adapters to `folder` in the layout that `mlx_lm.generate --adapter-path` reads."""
    write_arrays(folder / ADAPTER_WEIGHTS, weights)
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def taken_off(model: nn.Module) -> Generator[None]:
    """Disable the adapters inside the context, so that the model is the reference policy."""
    adapted = _adapted(model)
    plain = [(n, m.embedding if "embedding" in m else m.linear) for n, m in adapted]
    model.update_modules(tree_unflatten(plain))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(adapted))


@contextlib.contextmanager
def fused(model: Any) -> Generator[None]:
    """Inside the context, add each adapter's product to the weight of its layer. The model's
    outputs stay the same, except that layers of 4, 8 or 16 bits round the sum."""
    dtype, replaced = model_dtype(model), _replaced(model)
    plain = [(name, module.fuse()) for name, module in _adapted(model)]
    for _, layer in plain:
        layer.set_dtype(dtype)
    model.update_modules(tree_unflatten(plain))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(replaced))


@contextlib.contextmanager
def whole(model: Any, kind: str) -> Generator[None]:
    """Inside the context, give the model plain weights, with adapters added and none quantised.
    They are float16 if float16 can represent the trained weights (`in_float16`), else float32."""
    dtype, replaced, parameters = model_dtype(model), _replaced(model), model.parameters()
    if not replaced:
        yield
        return
    fits = kind not in OVERFLOWING
    half = partial(mx.array.astype, dtype=mx.float16)
    plain: list[tuple[str, Any]] = []
    try:
        for name, module in replaced:
            layer, change = _plain(module)
            weight = layer.weight.astype(dtype) if change is None else layer.weight
            fits = fits and in_float16(weight, change, half=half)
            plain.append((name, _plain(module)[0]))  # unevaluated, so that `layer` is freed
        model.update_modules(tree_unflatten(plain))
        done = {f"{name}.weight" for name, _ in plain}
        others = (x for name, x in flat(model.parameters()).items() if name not in done)
        fits = fits and all(in_float16(x, half=half) for x in others if x.dtype == dtype)
        cast(model, mx.float16 if fits else mx.float32)
        yield
    finally:
        model.update_modules(tree_unflatten(replaced))
        model.update(parameters)


def _adapted(model: Any) -> list[tuple[str, Any]]:
    return [(name, module) for name, module in model.named_modules() if hasattr(module, "lora_a")]


def _plain(module: Any) -> tuple[Any, mx.array | None]:
    """Return an adapted or quantised layer as a plain float32 layer, and the adapter's part of its
    weight. A quantised weight is converted to float32 before the adapter is added, since some kinds
    convert to bfloat16, which would round the sum."""
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
    """Return a plain float32 copy of a layer that has no adapter."""
    exact = copy.copy(layer)
    exact.set_dtype(mx.float32)
    unpacked: Any = dequantize_model(nn.Sequential(exact))
    unpacked.set_dtype(mx.float32)
    return unpacked.layers[0]


def _replaced(model: Any) -> list[tuple[str, Any]]:
    """Return the modules with adapters or quantised weights, of nested ones only the outermost."""
    adapted = [
        (name, module)
        for name, module in model.named_modules()
        if hasattr(module, "lora_a") or hasattr(module, "bits")
    ]
    outer = {name for name, _ in adapted}
    return [(n, m) for n, m in adapted if n.rpartition(".")[0] not in outer]
