"""Load a causal language model, and run it, with the LM head applied only to the states needed."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path
from mlx_lm.models.rope_utils import SuScaledRoPE
from mlx_lm.utils import load_config, load_model
from transformers import AutoTokenizer
from transformers import logging as transformers_logging

from ictcli.engine.checksums import stored_tensors
from ictcli.engine.model_files import fetch
from ictcli.engine.models import Source, loading
from ictcli.engine.older import older_names
from ictcli.engine.shape import read_context, rope_settings
from ictcli.errors import UserError
from ictcli.recipe.tables import EngineSettings

from .files import flat, read_arrays, write_arrays

ADAPTED = frozenset(("lora_a", "lora_b"))
"""Names of an adapter's two matrices in its layer."""
ADDING_1 = (
    *("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight"),
    *("language_model.norm.weight", "q_norm.weight", "k_norm.weight"),
)
"""Norm weights w that Qwen3.5 and Qwen3-Next apply as 1 + w."""
GROUP = 64
"""Number of weights that share a scale in 4-bit quantisation."""


def load(
    source: Source, settings: EngineSettings, device: mx.Device
) -> tuple[Any, Any, dict[str, Any], Path, int]:
    """Return the model (without adapters, from safetensors only), its tokenizer, its config.json,
    their folder, and the context length in tokens."""
    transformers_logging.disable_progress_bar()
    with loading(source, "torch"):
        folder = Path(source.path)
        if not folder.is_dir():
            folder = fetch(source.path, code=settings.trust_remote_code)
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=settings.trust_remote_code
        )
        stored = load_config(folder)
        model, config = load_model(
            folder,
            lazy=True,
            model_config=older_names(stored),
            trust_remote_code=settings.trust_remote_code,
        )
        cast(model, _dtype(model, settings.dtype, device))
        if settings.load_in_4bit and not is_quantised(model):
            config = {**config, "quantization": quantise(model)}
        mx.eval(model.parameters())  # reads the weights now, not in the first step
        text = config.get("text_config", config)
        context = read_context(text, settings.context)
        _take_short_frequencies(model, text)
    return model, tokenizer, config, folder, context


def _take_short_frequencies(model: nn.Module, config: dict[str, Any]) -> None:
    """Use LongRoPE's frequencies for short sequences; mlx-lm loads those for long sequences."""
    ropes = [rope for rope in rope_settings(config) if "short_factor" in rope]
    for module in model.modules():
        for rope in ropes if type(module) is SuScaledRoPE else ():
            short, long = (mx.array(rope[name]) for name in ("short_factor", "long_factor"))
            module._freqs = module._freqs / long * short
            module._scale = rope.get("short_mscale") or module._scale


def vocabulary_of(config: dict[str, Any], folder: Path) -> int:
    """Return the number of logits of a token. Raise UserError if config.json does not give it."""
    text = config.get("text_config", config)  # nested if the model takes images too
    size = text.get("vocab_size") or config.get("vocab_size")
    if not size:
        raise UserError(f"{folder}/config.json has no vocab_size.", "add vocab_size there")
    return int(size)


def _dtype(model: nn.Module, wanted: str, device: mx.Device) -> mx.Dtype:
    """Return the type to load the weights in. On a GPU `auto` keeps 16-bit weights as they are: the
    scales of quantised weights may be float16, which has three bits more than bfloat16."""
    if wanted != "auto":
        return mx.bfloat16 if wanted == "bfloat16" else mx.float32
    if device.type == mx.cpu:
        return mx.float32
    kept = model_dtype(model)
    return mx.bfloat16 if kept == mx.float32 else kept


def cast(model: Any, dtype: mx.Dtype) -> None:
    """Convert float weights to `dtype`, except those that the model needs in float32."""
    wants = getattr(model, "cast_predicate", lambda name: True)
    changed = tree_map_with_path(
        lambda name, x: x.astype(dtype) if is_float(x) and wants(name) else x, model.parameters()
    )
    model.update(changed)


def model_dtype(model: nn.Module) -> mx.Dtype:
    """Return the type that the model computes in: that of most of its weights, scales and norms."""
    sizes: Counter[mx.Dtype] = Counter()
    for name, x in flat(model.parameters()).items():
        if is_float(x) and name.rsplit(".", 1)[-1] not in ADAPTED:
            sizes[x.dtype] += x.size
    return sizes.most_common(1)[0][0] if sizes else mx.float32


def quantise(model: nn.Module) -> dict[str, int]:
    """Round the weights to 4 bits as mlx-lm's conversion does; return bits and group size."""

    def fits(name: str, module: Any) -> bool:
        return hasattr(module, "to_quantized") and module.weight.shape[-1] % GROUP == 0

    nn.quantize(model, GROUP, 4, class_predicate=fits)
    return {"group_size": GROUP, "bits": 4}


def is_float(value: mx.array) -> bool:
    return mx.issubdtype(value.dtype, mx.floating)


def is_quantised(model: nn.Module) -> bool:
    return any(hasattr(module, "bits") for module in model.modules())


def restore_layout(folder: Path, like: Path) -> None:
    """Give the weights in `folder` the names and axes of those in the folder `like`: mlx-lm saves
    convolutions with channels last, and for Qwen3.5 and Qwen3-Next 1 + some norm weights."""
    files = like.glob("model*.safetensors")
    shapes = {tensor.name: tensor.shape for file in files for tensor in stored_tensors(file)}
    names = {_place(name): name for name in shapes}
    for file in folder.glob("model*.safetensors"):
        arrays = read_arrays(file)
        named = {
            name if name in shapes else names.get(_place(name), name): value
            for name, value in arrays.items()
        }
        turned = {
            name: value.transpose(*axes)
            for name, value in named.items()
            if (axes := _axes(tuple(value.shape), shapes.get(name))) is not None
        }
        if any("linear_attn.conv1d" in name for name in turned):  # Qwen3.5 and Qwen3-Next
            norms = (name for name in named if name.endswith(ADDING_1))
            turned |= {name: named[name] - 1 for name in norms}
        if turned or named.keys() != arrays.keys():
            write_arrays(file, named | turned)
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        about = json.loads(index.read_text(encoding="utf-8"))
        for name in [*about["weight_map"].keys() - shapes.keys()]:
            stored = names.get(_place(name), name)
            about["weight_map"][stored] = about["weight_map"].pop(name)
        index.write_text(json.dumps(about, indent=4), encoding="utf-8")


def _place(name: str) -> str:
    """Return a weight's name without its parts `model` and `language_model`, which some lack."""
    return ".".join(part for part in name.split(".") if part not in ("model", "language_model"))


def _axes(now: tuple[int, ...], then: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the order of axes that turns shape `now` into `then`; None if no change is needed."""
    if then is None or now == then or sorted(now) != sorted(then):
        return None
    return next(
        order for order in permutations(range(len(now))) if tuple(now[i] for i in order) == then
    )


Head = tuple[Any, str]
"""A module and the name of its method that turns hidden states into logits."""


def find_heads(model: nn.Module) -> list[Head]:
    """Return the possible LM heads: `lm_head`, and embeddings that can be applied transposed. Of
    nested modules (an adapter's) only the outer one is returned."""
    heads = {
        name: (module, "as_linear" if hasattr(module, "as_linear") else "__call__")
        for name, module in model.named_modules()
        if hasattr(module, "as_linear") or name.rsplit(".", 1)[-1] == "lm_head"
    }
    return [head for name, head in heads.items() if name.rpartition(".")[0] not in heads]


@contextlib.contextmanager
def _changed_inputs(
    heads: Sequence[Head], change: Callable[[mx.array], mx.array]
) -> Generator[list[mx.array]]:
    """Apply `change` to the LM head's input, and yield a list to which each input is appended. The
    list stays empty if the head's class is unknown.

    MLX has no hooks. The head's class is replaced by one that changes the input first, so whatever
    the model does after its head (scaling, soft capping) still happens.
    """
    hook = SimpleNamespace(change=change, inputs=[])
    plain = [(module, type(module)) for module, _ in heads]
    for module, method in heads:
        module.__class__ = _with_hook(type(module), method)
        module.hook = hook
    try:
        yield hook.inputs
    finally:
        for module, kind in plain:
            module.__class__ = kind
            del module.hook


@cache  # a new class in each pass would hold its arrays until garbage collection
def _with_hook(plain: type, method: str) -> type:
    def call(self: Any, x: mx.array, *args: Any) -> mx.array:
        self.hook.inputs.append(x)
        return getattr(plain, method)(self, self.hook.change(x), *args)

    return type(plain.__name__, (plain,), {method: call})


def head_inputs(
    model: Any, heads: Sequence[Head], ids: mx.array, caches: Sequence[Any] | None = None
) -> mx.array:
    """Return the (R, S, H) states in front of the LM head, or the logits if the head is unknown."""
    with _changed_inputs(heads, lambda states: states[:, :0]) as inputs:
        logits = model(ids, cache=caches)
    return inputs[0] if inputs else logits


def head_logits(model: Any, heads: Sequence[Head], states: mx.array) -> mx.array:
    """Return (n, V) float32 logits of states (n, H) from `head_inputs`.

    The model runs on one dummy token, and `states` replace its head's input. MLX is lazy, so the
    blocks are never computed for the dummy token. The head of a 152k vocabulary is over a quarter
    of a 0.5B model's arithmetic and most of its memory, so only wanted states go through it.
    """
    with _changed_inputs(heads, lambda _: states[None]) as inputs:
        logits = model(mx.zeros((1, 1), dtype=mx.int32))
    return (logits[0] if inputs else states).astype(mx.float32)


@contextlib.contextmanager
def recomputing(layers: Sequence[Any], active: bool) -> Generator[None]:
    """If `active`, have the backward pass recompute each layer's activations from its input. Inside
    the context each layer has a subclass of its class, which stays unchanged: patching it in every
    call would nest checkpoints."""
    plain = [type(layer) for layer in layers] if active else []
    for layer, kind in zip(layers, plain, strict=False):
        layer.__class__ = _recomputed(kind)
    try:
        yield
    finally:
        for layer, kind in zip(layers, plain, strict=False):
            layer.__class__ = kind


@cache
def _recomputed(plain: Any) -> type:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        def run(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            self.update(parameters)
            return plain.__call__(self, *args, **kwargs)

        return mx.checkpoint(run)(self.trainable_parameters(), *args, **kwargs)

    return type(plain.__name__, (plain,), {"__call__": call})
