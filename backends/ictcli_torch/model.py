"""Load a causal language model, and run it, with the LM head applied only to the states needed."""

import contextlib
import inspect
import os
from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers import logging as transformers_logging
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.llama.modeling_llama import LlamaMLP

from ictcli.engine import models
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.models import Source
from ictcli.errors import UserError
from ictcli.recipe.tables import EngineSettings

from .attention import in_float32
from .cpu import exchange, kernels_of

UNREPEATED = "TRANSFORMERS_SDPA_FORCE_GQA"
"""Environment variable that stops transformers from repeating keys and values for grouped heads."""


def load(source: Source, settings: EngineSettings, device: torch.device) -> tuple[Any, Any]:
    """Return the model on its device, without adapters, and its tokenizer. Safetensors only."""
    path = source.path
    remote = {"trust_remote_code": settings.trust_remote_code}
    transformers_logging.disable_progress_bar()
    with models.loading(source, "mlx"):
        tokenizer = AutoTokenizer.from_pretrained(path, **remote)
        config = AutoConfig.from_pretrained(path, **remote)
        capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)  # sdpa lacks it
        bfloat16 = in_bfloat16(settings.dtype, gpu=device.type != "cpu")
        dtype = torch.bfloat16 if bfloat16 else torch.float32
        how = remote | ({"attn_implementation": "eager"} if capped else {})
        packed = in_4_bits(device) if settings.load_in_4bit else {}
        loaded: Any = _read_whole(path, dtype=dtype, **how, **packed)
        if not packed:  # packed weights are there already
            loaded.to(device)
    for module in loaded.modules():  # else pad tokens in the data get no gradient
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    if not settings.load_in_4bit:
        exchange(loaded, device, kernels_of(settings.kernels))
    in_float32(loaded, device)
    loaded.eval()  # dropout would make the ratio pi / pi_old noisy
    return loaded, tokenizer


def _read_whole(path: str, **how: Any) -> Any:
    read: Any = AutoModelForCausalLM.from_pretrained(
        path, use_safetensors=True, output_loading_info=True, **how
    )
    loaded, loading = read
    if missing := sorted(loading["missing_keys"]):  # transformers would leave them random
        raise UserError(
            f"The model {path} lacks {len(missing)} of its weights: {missing[0]}, ...",
            "fetch or export it again",
        )
    return loaded


def in_4_bits(device: torch.device) -> dict[str, Any]:
    """Return the options with which transformers rounds all linear layers but the head to NF4
    (arXiv 2305.14314) with quantised scales, and computes in bfloat16."""
    from transformers import BitsAndBytesConfig

    packed = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"quantization_config": packed, "device_map": {"": device}}


def blocks(model: Any) -> nn.ModuleList:
    """Return the transformer blocks in order. Raise UserError if they are not found."""
    count = text_config(model).num_hidden_layers
    for part in (decoder_of(model), model):
        for module in part.modules():
            if isinstance(module, nn.ModuleList) and len(module) == count:
                return module
    raise UserError("The torch engine finds no blocks in this model.", "try --backend mlx")


@contextlib.contextmanager
def frugal(model: Any, *, recompute: bool) -> Generator[None]:
    """Have autograd keep less of every block but the last, with which the backward pass starts:
    elementwise results of gated MLPs or, with `recompute`, whole blocks are computed again.
    transformers' own recomputation works only in training mode, which enables dropout."""
    parts: list[Any] = [*blocks(model)][:-1]
    if not recompute:
        parts = [block.mlp for block in parts if is_gated(getattr(block, "mlp", None))]
    for part in parts:
        again = partial(checkpoint, part.forward, use_reentrant=False, preserve_rng_state=False)
        part.forward = again if recompute else partial(_gated, part)
    try:
        with _unrepeated() if model.device.type == "cpu" else contextlib.nullcontext():
            yield
    finally:
        for part in parts:
            del part.forward


@contextlib.contextmanager
def _unrepeated() -> Generator[None]:
    """Keep keys and values unrepeated for the heads that share them, if transformers knows
    UNREPEATED. PyTorch's kernel for CPUs needs no copies, even with a mask."""
    if UNREPEATED in os.environ:
        yield
        return
    os.environ[UNREPEATED] = "1"
    try:
        yield
    finally:
        del os.environ[UNREPEATED]


def is_gated(mlp: Any) -> bool:
    """Return whether `_gated` computes the same as this MLP: its code is that of Llama's MLP."""
    code, own = LlamaMLP.forward.__code__, getattr(getattr(mlp, "forward", None), "__code__", None)
    return own is not None and (own.co_code, own.co_names) == (code.co_code, code.co_names)


def _gated(mlp: Any, x: Tensor) -> Tensor:
    """Compute a gated MLP; autograd recomputes its activation and the activation times `up`."""
    gate, up = mlp.gate_proj(x), mlp.up_proj(x)
    held = gate.detach(), up.detach()
    active = mlp.act_fn(gate)
    with _made_again(active, lambda: mlp.act_fn(held[0])):
        product = active * up
    with _made_again(product, lambda: mlp.act_fn(held[0]) * held[1]):
        return mlp.down_proj(product)


def _made_again(tensor: Tensor, make: Callable[[], Tensor]) -> contextlib.AbstractContextManager:
    """Have autograd recompute `tensor` by `make` instead of keeping it."""
    place, count = tensor.data_ptr(), tensor.numel()

    def pack(saved: Tensor) -> Tensor | torch.Size:
        same = saved.data_ptr() == place and saved.numel() == count and saved.is_contiguous()
        return saved.shape if same else saved

    @torch.no_grad()
    def unpack(kept: Tensor | torch.Size) -> Tensor:
        return kept if isinstance(kept, Tensor) else make().view(kept)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


@cache
def cache_argument(kind: type) -> str:
    """Return the name of the cache argument of a model class: transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(kind.forward).parameters else "past_key_values"


def text_config(model: Any) -> Any:
    """Return the config of the language model, also if the model takes images too."""
    return model.config.get_text_config()


def decoder_of(model: Any) -> Any:
    """Return the module that computes the states before the LM head, also for Llama 4, for which
    transformers' `get_decoder` returns the model itself."""
    decoder = model.get_decoder()
    return getattr(model, "model", model) if decoder is model else decoder


class _States(BaseModelOutputWithPast):
    """A decoder's output in which missing fields are None: some models read fields of their own."""

    def __getattr__(self, name: str) -> None:
        return None


def head_logits(model: Any, states: Tensor) -> Tensor:
    """Return (n, V) logits, in float32 at least, of states (n, H) from `decoder_of(model)`.

    The model runs with its decoder replaced by these states, so whatever it does after its head
    (scaling, soft capping) still happens. The head of a 152k vocabulary is over a quarter of a 0.5B
    model's arithmetic, so only wanted states go through it.
    """
    decoder = decoder_of(model)
    plain = vars(decoder).get("forward")

    def forward(*args: Any, **kwargs: Any) -> _States:
        return _States(last_hidden_state=states[None])

    decoder.forward = forward
    try:
        ids = torch.zeros((1, len(states)), dtype=torch.long, device=states.device)
        logits = model(input_ids=ids, use_cache=False).logits[0]
        return logits.to(torch.promote_types(logits.dtype, torch.float32))
    finally:
        del decoder.forward
        if plain is not None:
            decoder.forward = plain
