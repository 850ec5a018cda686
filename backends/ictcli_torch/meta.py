"""A model that no process reads whole: it is built without numbers, and each reads its parts."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from huggingface_hub import snapshot_download
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.conversion_mapping import get_model_conversion_mapping

from ictcli.engine.models import weight_files

Places = dict[str, tuple[Path, str]]
"""Of each weight or buffer of a model, its file and its name there."""
FILES = ("*.json", "*.safetensors")


def on_meta(path: str, config: Any, dtype: torch.dtype, device: torch.device, **remote: Any) -> Any:
    """A model whose weights have no numbers (device meta) and whose buffers have, with `places`,
    where the numbers are. None where files name or shape weights otherwise than the model does, as
    those of most mixtures of experts: what transformers makes of those it makes of whole weights.
    """
    if getattr(config, "quantization_config", None):
        return None
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, **remote)
    folder = path if Path(path).is_dir() else snapshot_download(path, allow_patterns=[*FILES])
    model.places = _places(model, Path(folder))
    if model.places is None:
        return None
    with contextlib.suppress(OSError):
        model.generation_config = GenerationConfig.from_pretrained(folder)
    for tensor in model.parameters():
        tensor._is_hf_initialized = True  # what follows is for buffers
    _exchange_buffers(model, lambda buffer: torch.empty_like(buffer, device="cpu"))
    model.initialize_weights()
    for name, buffer in model.named_buffers():
        if name in model.places:
            buffer.copy_(_read(model.places[name]))
    _exchange_buffers(model, lambda buffer: buffer.to(device))
    return model


def _exchange_buffers(model: nn.Module, new: Callable[[Tensor], Tensor]) -> None:
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, new(buffer))


def _places(model: Any, folder: Path) -> Places | None:
    stored: dict[str, tuple[Path, list[int]]] = {}
    for file in weight_files(folder):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                stored[name] = file, opened.get_slice(name).get_shape()
    for rule in get_model_conversion_mapping(model):
        if any(rule.rename_source_key(name) != (name, None) for name in stored):
            return None
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    places: Places = {}
    for first, *tied in names.values():
        shape = list(model.state_dict()[first].shape)
        found = [name for name in (first, *tied) if name in stored]
        if len(found) != 1 or stored[found[0]][1] != shape:
            return None
        places[first] = stored[found[0]][0], found[0]
    return places


@torch.no_grad()
def read_parts(parts: dict[str, nn.Parameter], places: Places, dtype: torch.dtype) -> None:
    """Fill this process's part of each weight, spread by rows, with what `dtype` holds of it."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for name, weight in parts.items():
        part: Tensor = weight.to_local()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        if part.numel():
            first = rank * -(-len(weight) // size)
            part.copy_(_read(places[name], slice(first, first + len(part))).to(dtype))


def _read(place: tuple[Path, str], rows: slice = slice(None)) -> Tensor:
    with safe_open(place[0], "pt") as opened:
        return opened.get_slice(place[1])[rows]
