"""Arrays on disk: one safetensors file, or the parts of it that several processes wrote or read."""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.conversion_mapping import get_model_conversion_mapping

from ictcli.engine.checksums import stored_tensors
from ictcli.engine.model_files import fetch
from ictcli.engine.models import weight_files
from ictcli.files import write_json


def part(path: Path, rank: int, size: int) -> Path:
    """The file of a rank, beside `path`: its slice of each array along the first dimension, and
    scalars, which all ranks have."""
    return path.with_stem(f"{path.stem}-{rank + 1}-of-{size}")


def parts_of(path: Path) -> list[Path]:
    """The parts of `path` that are there, by rank."""
    found = list(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    return sorted(found, key=lambda file: int(file.stem.split("-")[1]))


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Arrays by name, put together where they are in parts."""
    if not parts_of(path):
        return load_file(path)
    return {name: stored.read() for name, stored in open_arrays(path).items()}


def write_arrays(path: Path, arrays: dict[str, Tensor], **about: str) -> None:
    save_file(arrays, path, metadata=about or None)


@dataclass(frozen=True)
class Stored:
    """An array that is on disk, in one file or in parts."""

    name: str
    shape: tuple[int, ...]
    files: list[Path]

    def read(self) -> Tensor:
        held: list[Tensor] = []
        for file in self.files if self.shape else self.files[:1]:
            with safe_open(file, "pt") as opened:
                held.append(opened.get_tensor(self.name))
        return torch.cat(held) if len(held) > 1 else held[0]


def open_arrays(path: Path) -> dict[str, Stored]:
    """What `read_arrays` reads, unread."""
    files, shapes = parts_of(path) or [path], dict[str, list[tuple[int, ...]]]()
    for tensor in (each for file in files for each in stored_tensors(file)):
        shapes.setdefault(tensor.name, []).append(tensor.shape)
    return {
        name: Stored(name, (sum(n[0] for n in each), *each[0][1:]) if each[0] else (), files)
        for name, each in shapes.items()
    }


def write_each(
    path: Path | None, like: Mapping[str, Tensor], value: Callable[[str], Tensor], **about: str
) -> None:
    """Write arrays of the shapes and types of `like`, one after another, as one safetensors file: a
    header and the bytes. `value` gives each by its name, also where `path` is None and nothing is
    written."""
    names = sorted(like, key=lambda name: (-like[name].element_size(), name))  # so all are aligned
    header, end = dict[str, Any](__metadata__=about) if about else {}, 0
    for name in names:
        start, end = end, end + like[name].numel() * like[name].element_size()
        entry = json.loads(save({name: torch.empty(0, dtype=like[name].dtype)})[8:])[name]
        header[name] = entry | {"shape": [*like[name].shape], "data_offsets": [start, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with contextlib.nullcontext() if path is None else path.open("wb") as file:
        if file:
            file.write(len(head).to_bytes(8, "little") + head)
        for name in names:
            array = value(name)
            if file:
                file.write(array.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


FILE, INDEX = "5GB", "model.safetensors.index.json"
"""How much a file of a model holds at most, and what names the files."""


def write_files(
    folder: Path | None, like: Mapping[str, Tensor], value: Callable[[str], Tensor]
) -> None:
    """`write_each` of a model's weights, in Hugging Face's layout."""
    split = split_torch_state_dict_into_shards(
        dict(like), filename_pattern="model{suffix}.safetensors", max_shard_size=FILE
    )
    for file, names in split.filename_to_tensors.items():
        some = {name: like[name] for name in names}
        write_each(folder and folder / file, some, value, format="pt")
    if folder and split.is_sharded:
        write_json(
            folder / INDEX, {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        )


Places = dict[str, tuple[Path, str]]
"""Of each weight or buffer of a model, its file and its name there."""


def on_meta(path: str, config: Any, dtype: torch.dtype, device: torch.device, **remote: Any) -> Any:
    """A model whose weights have no numbers (device meta) and whose buffers have, with `places`,
    where the numbers are. None where files name or shape weights otherwise than the model does, as
    those of most mixtures of experts: what transformers makes of those it makes of whole weights.
    """
    if getattr(config, "quantization_config", None):
        return None
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, **remote)
    folder = Path(path) if Path(path).is_dir() else fetch(path)
    model.places = _places(model, folder)
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
    files = weight_files(folder)
    stored = {tensor.name: tensor for file in files for tensor in stored_tensors(file)}
    for rule in get_model_conversion_mapping(model):
        if any(rule.rename_source_key(name) != (name, None) for name in stored):
            return None
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    places: Places = {}
    for first, *tied in names.values():
        found = [stored[name] for name in (first, *tied) if name in stored]
        if len(found) != 1 or found[0].shape != tuple(model.state_dict()[first].shape):
            return None
        places[first] = found[0].file, found[0].name
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
