"""Create, load, disable, write and sample with low-rank adapters, using peft."""

import contextlib
import json
import warnings
from collections.abc import Generator
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, cast

import peft
import torch
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ictcli.engine.adapters import check_complete, choose_layers, first_values, reading
from ictcli.engine.models import ADAPTER_CONFIG, PEFT_WEIGHTS
from ictcli.recipe.tables import NewAdapters

from .merge import NAME
from .model import blocks


def put_on(model: Any, settings: NewAdapters, path: str) -> peft.PeftModel:
    """Freeze the model, loaded from `path`, and add new float32 adapters to it. Return peft's
    object, which shares the model and replaces its linear layers."""
    wanted, alpha = _targets(model, settings), settings.alpha
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(Path(path).resolve()) if Path(path).is_dir() else path,
        r=settings.rank,
        lora_alpha=int(alpha) if alpha.is_integer() else cast(Any, alpha),  # 16, not 16.0
        lora_dropout=0.0,  # dropout would make the ratio pi / pi_old noisy
        target_modules=sorted(wanted),
        inference_mode=False,
    )
    with _quiet():
        adapted = peft.get_peft_model(model, config)
    for name, place in wanted.items():
        layer: Any = model.get_submodule(name)
        A = layer.lora_A[NAME]
        values = first_values(settings.seed, place, A.in_features, A.out_features)
        A.weight.data.copy_(torch.from_numpy(values.T.copy()))
    _fuse(model)
    model.eval()
    return adapted


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Silence the warnings of transformers inside peft; this file checks for missing weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class FusedLora(LoraLinear):
    """peft's LoRA layer, but adding the scaled product in place: peft's own forward makes three
    more arrays of the output's size, and two more in the backward pass. Products are in the model's
    dtype, adapters and their gradients in float32."""

    takes_product = True
    """Whether the layer uses its base layer's output alone, and not its weight (`cpu.pack`)."""
    siblings: "Siblings"

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        sums = self.base_layer(x.flatten(0, -2))
        if not self.disable_adapters:
            low, B = self.siblings.low(self, x)
            sums.addmm_(low, B.t(), alpha=self.scaling[NAME])
        return sums.view(*x.shape[:-1], sums.shape[-1])


TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names of layers that have the same input."""


class Siblings:
    """Adapters of layers with the same input. One product applies all their A to this input."""

    typed: tuple[Tensor, list[Tensor]] | None = None
    """A and B in the model's dtype, set while `sampling` is active; else None."""
    _states: ClassVar[Tensor | None] = None
    """Input of the last product, until each layer has taken its part. A class variable, so that the
    next pass frees the input of a pass that ran out of memory."""
    _parts: ClassVar[dict[FusedLora, tuple[Tensor, Tensor]]] = {}

    def __init__(self, layers: list[FusedLora]) -> None:
        self._layers = layers
        for layer in layers:
            layer.siblings = self

    def low(self, layer: FusedLora, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the product of the layer's A with states x, and the layer's B."""
        if self._states is not x or layer not in self._parts:
            typed = self.typed
            A, B = typed if typed and typed[0].dtype == x.dtype else self.in_type(x.dtype)
            low = nn.functional.linear(x.flatten(0, -2), A)
            parts = low.split([weight.shape[1] for weight in B], -1)
            Siblings._states = x
            Siblings._parts = dict(zip(self._layers, zip(parts, B, strict=True), strict=True))
        part = self._parts.pop(layer)
        if not self._parts:
            Siblings._states = None
        return part

    def in_type(self, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
        A = [cast(Any, layer.lora_A[NAME]).weight.to(dtype) for layer in self._layers]
        B = [cast(Any, layer.lora_B[NAME]).weight.to(dtype) for layer in self._layers]
        return torch.cat(A) if len(A) > 1 else A[0], B


def _fuse(model: nn.Module) -> None:
    """Turn peft's LoRA layers into `FusedLora`, except those in 4 bits, with a bias, or of DoRA."""
    for module in model.modules():
        if type(module) is not LoraLinear or NAME not in module.lora_A:
            continue
        if NAME not in module.lora_variant and not module.lora_bias[NAME]:
            module.__class__ = FusedLora
            Siblings([cast(Any, module)])
    for parent, names in product(model.modules(), TOGETHER):
        layers = [getattr(parent, name, None) for name in names]
        Siblings([layer for layer in layers if isinstance(layer, FusedLora)])


def _targets(model: Any, settings: NewAdapters) -> dict[str, str]:
    """Return the linear layers to adapt: name in the model -> block number, name in the block."""
    layers = list(blocks(model))
    linear = [[n for n, m in x.named_modules() if isinstance(m, nn.Linear)] for x in layers]
    names = {id(module): name for name, module in model.named_modules()}
    return {
        names[id(layers[block].get_submodule(name))]: f"{block}.{name}"
        for block, name in choose_layers(settings, linear, model.config.model_type)
    }


def read(model: Any, folder: Path, base: str) -> peft.PeftModel:
    """Load the adapters in `folder`, in peft's or mlx-lm's layout, onto a model that has none and
    whose weights have the fingerprint `base`."""
    with reading(folder, "peft", len(blocks(model)), base) as converted, _quiet():
        config = peft.PeftConfig.from_pretrained(str(converted))
        _check_kind(config)
        adapted = peft.PeftModel.from_pretrained(model, str(converted), config=config)
        _check_names(adapted, converted / PEFT_WEIGHTS)
    _fuse(model)
    model.eval()
    return adapted


def _check_kind(config: peft.PeftConfig) -> None:
    """Raise ValueError for adapters that also act outside of layers, which passes would ignore."""
    if config.is_prompt_learning:
        kind = peft.PeftType(config.peft_type).value
        raise ValueError(f"ictcli does not support peft's adapters of kind {kind}")
    if getattr(config, "megatron_config", None):  # peft imports a module that it names
        raise ValueError("ictcli does not support adapters of Megatron's layers")
    if getattr(config, "alora_invocation_tokens", None):
        raise ValueError("ictcli does not support adapters that start after given tokens (aLoRA)")


def _check_names(adapted: peft.PeftModel, file: Path) -> None:
    """Raise ValueError if weights are missing, or unknown to the model: peft would ignore both.
    With adapters on embeddings or the head, peft also saves their base weights."""
    expected = set(_weights(adapted))
    with safe_open(file, "pt") as opened:
        stored = set(opened.keys())
    check_complete(expected, stored)
    if unknown := sorted(name for name in stored - expected if ".base_layer." not in name):
        raise ValueError(f"the model has no weight {unknown[0]}")


def _weights(adapted: peft.PeftModel) -> dict[str, Tensor]:
    return peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)


def write(folder: Path, adapted: peft.PeftModel, base: str) -> None:
    """Write adapters to `folder` in the layout that `peft.PeftModel.from_pretrained` reads."""
    weights = {name: tensor.contiguous() for name, tensor in _weights(adapted).items()}
    save_file(weights, folder / PEFT_WEIGHTS, metadata={"base": base})  # several are unsorted
    config = adapted.peft_config[NAME].to_dict()
    config |= {"inference_mode": True, "target_modules": sorted(config["target_modules"])}
    text = json.dumps(config, indent=2, sort_keys=True, default=str)
    (folder / ADAPTER_CONFIG).write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def taken_off(model: nn.Module) -> Generator[None]:
    """Disable the adapters inside the context, so that the model is the reference policy."""
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@contextlib.contextmanager
def sampling(model: Any) -> Generator[None]:
    """Inside the context, keep adapters in the model's dtype: no conversion in decoding steps."""
    groups = {m.siblings for m in model.modules() if isinstance(m, FusedLora)}
    try:
        with torch.no_grad():
            for siblings in groups:
                siblings.typed = siblings.in_type(model.dtype)
        yield
    finally:
        for siblings in groups:
            siblings.typed = None
