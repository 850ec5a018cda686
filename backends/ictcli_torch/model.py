"""Loading a causal language model, and running it with the LM head only where it is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from ictcli import models
from ictcli.errors import EngineMissingError, UserError
from ictcli.models import locate
from ictcli.settings import EngineSettings


def choose_device(name: str) -> torch.device:
    """`auto`: CUDA, else MPS, else CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cuda", "mps", "cpu"):
            raise RuntimeError("it is neither cuda, mps nor cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".!")
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason}.", "engine.device=auto picks one"
        ) from error
    return device


def load(model: str, settings: EngineSettings, device: torch.device) -> tuple[Any, Any]:
    """The model on its device, ready to train, and its tokenizer. Safetensors only."""
    source = locate(model)
    if source.adapter is not None:
        raise UserError(
            f"The torch engine does not read the adapters in {source.adapter}.",
            "--backend mlx does; ictcli export RUN --backend mlx makes a whole model of a run",
        )
    path = source.path
    bfloat16 = settings.dtype == "bfloat16" or (
        settings.dtype == "auto" and device.type in ("cuda", "mps")
    )
    remote = {"trust_remote_code": settings.trust_remote_code}
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **remote)
        read: Any = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=torch.bfloat16 if bfloat16 else torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            **remote,
        )
    except Exception as error:  # whatever a broken folder makes the library raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".!")
        hint = "check the path or hub id; a hub id needs the network or a filled cache"
        if "trust_remote_code" in str(error):
            hint = "engine.trust_remote_code=true runs the model's own code, if you trust it"
        raise UserError(f"The model {model} cannot be loaded: {reason}.", hint) from error
    loaded, found = read
    if missing := sorted(found["missing_keys"]):  # transformers fills them with random numbers
        raise UserError(
            f"The model {model} lacks {len(missing)} of its weights, {missing[0]} first.",
            "fetch or export it again",
        )
    for module in loaded.modules():  # a pad token that is an input is a token like any other
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    loaded.to(device)
    loaded.eval()  # dropout would make the ratio of pi to pi_old noise
    return loaded, tokenizer


def stop_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Ids that end a response (`ictcli.models.stop_ids`)."""
    return models.stop_ids(tokenizer, model.generation_config.eos_token_id)


def text_config(model: Any) -> Any:
    """The language model's settings, also of a model that takes images too."""
    return model.config.get_text_config()


@contextlib.contextmanager
def head_only_at(model: Any, where: Tensor) -> Generator[None]:
    """Within, the model's logits are (N, V): the LM head sees only the N True places of `where`.

    A hook in front of the head picks the hidden states (R, S, H) at `where` (R, S), so whatever
    the model does behind its head (scaling, soft capping) works on those alone. The head of a
    152k vocabulary is over a quarter of a 0.5B model's arithmetic and most of its memory.
    """

    def pick(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0][where],)

    handle = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()
