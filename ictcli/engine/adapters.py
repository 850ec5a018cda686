"""Low-rank adapters: initial values, choice of layers, and conversion between file layouts.

| | mlx-lm | peft |
|---|---|---|
| weights | adapters.safetensors | adapter_model.safetensors |
| A | NAME.lora_a (in, rank) | base_model.model.NAME.lora_A.weight (rank, in) |
| B | NAME.lora_b (rank, out) | base_model.model.NAME.lora_B.weight (out, rank) |
| factor of the product A B | scale | lora_alpha / r |
"""

import json
import math
import re
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import safe_open

from ictcli.engine.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PEFT_WEIGHTS, snapshot
from ictcli.errors import UserError, nearest, text_of
from ictcli.files.reading import parse_json, read_text
from ictcli.recipe.tables import NewAdapters
from ictcli.seeds import generator

stored = cast(Any, safetensors.numpy)
Arrays = dict[str, npt.NDArray[Any]]
Layout = Literal["mlx", "peft"]
FILES: dict[Layout, str] = {"mlx": ADAPTER_WEIGHTS, "peft": PEFT_WEIGHTS}
PREFIX = "base_model.model."
TO_PEFT = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight"}
TO_MLX = {peft: mlx for mlx, peft in TO_PEFT.items()}
PLACE = re.compile(r"(?:.*\.)?layers\.(\d+)\.(.+)")
"""Splits a layer's full name into the number of its block and its name within the block."""

READ = frozenset((
    "peft_type", "base_model_name_or_path", "target_modules", "r", "lora_alpha", "use_rslora",
    "task_type", "auto_mapping", "peft_version", "revision", "inference_mode", "megatron_core",
    "lora_dropout",  # dropout acts in training only
    "exclude_modules", "layers_to_transform", "layers_pattern",  # weights name their layers
    "qalora_group_size",  # only used with use_qalora
))  # fmt: skip
"""peft settings that are read here, follow from the names of the weights, or change nothing."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
}
"""Values of peft settings with which an adapter only adds its product to a layer. With others, such
as PiSSA's initialisation, it also changes the model's own weights."""

REFUSING = frozenset(("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"))
REFUSED = frozenset(("conv1d", "out_proj"))
"""Model types and their layers that peft does not adapt, as Mamba's kernels bypass adapters."""

OFF: tuple[Any, ...] = (None, False, {}, [])
"""Allowed values of all other peft settings, including those of future versions."""


def first_values(seed: int, name: str, inputs: int, rank: int) -> npt.NDArray[np.float32]:
    """Return the initial A (inputs, rank) of an adapter: uniform in +-1 / sqrt(inputs), as in peft
    and mlx-lm; B starts at 0. The values depend only on the seed and on `name`, the layer's path
    like 3.self_attn.q_proj: they are the same in every engine and for any choice of layers."""
    uniform = generator(seed, "adapter", name).random((inputs, rank), dtype=np.float32)
    return (2 * uniform - 1) / np.float32(math.sqrt(inputs))


def choose_layers(
    settings: NewAdapters, blocks: Sequence[Iterable[str]], kind: str
) -> list[tuple[int, str]]:
    """Return the block number and name of each layer to adapt. `blocks` are the names of every
    block's linear layers; `kind` is the model's `model_type`. Layers that peft does not adapt are
    left out, so that all engines adapt the same ones.

    Raises UserError if a target is in no block, or all targets are outside the chosen blocks."""
    refused = REFUSED if kind in REFUSING else frozenset[str]()
    if unsupported := sorted({_last(target) for target in settings.targets} & refused):
        raise UserError(
            f"adapter.targets: peft cannot adapt {unsupported[0]} in a model of type {kind}.",
            "leave it out",
        )
    names = [[name for name in block if _last(name) not in refused] for block in blocks]
    available = set[str]().union(*names)
    if not available:
        raise UserError(
            f"The blocks of a model of type {kind} have no layer that can be adapted.",
            "adapter.kind=none trains all weights",
        )
    short = {_last(name) for name in available}
    for target in settings.targets:
        if target not in short | available:
            raise UserError(
                f"adapter.targets: the model has no linear layer {target!r}"
                f"{nearest(target, sorted(short))}.",
                f"it has {', '.join(sorted(short))}",
            )
    targets = set(settings.targets) or available
    first = max(len(names) - (settings.layers or len(names)), 0)
    chosen = [
        (block, name)
        for block in range(first, len(names))
        for name in names[block]
        if name in targets or _last(name) in targets
    ]
    if not chosen:
        raise UserError(
            f"None of the last {settings.layers} blocks has a layer named in adapter.targets.",
            "adapter.layers=0 adapts all blocks",
        )
    return chosen


@contextmanager
def putting_on(model: str) -> Generator[None]:
    """Context for adding adapters to `model`, which turns a library's errors into UserErrors."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # libraries raise anything for a model that they do not support
        raise UserError(
            f"Adapters cannot be added to the model {model}: {text_of(error).rstrip('.')}.",
            "adapter.targets names the layers to adapt; adapter.kind=none trains all weights",
        ) from error


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


@contextmanager
def reading(folder: Path, layout: Layout, blocks: int, base: str) -> Generator[Path]:
    """Context that yields a folder with the adapters in a layout (`in_layout`). Raises UserError if
    loading fails, or if the adapters were trained on weights whose fingerprint is not `base`."""
    try:
        if base_of(folder) not in ("", base):
            raise ValueError("they were trained on other weights")
        with in_layout(folder, layout, blocks) as converted:
            yield converted
    except Exception as error:  # libraries raise anything on a damaged folder
        reason = f"{type(error).__name__}: {text_of(error)}"
        raise UserError(
            f"The adapters in {folder} do not fit the model: {reason}.",
            f"{ADAPTER_CONFIG} says which model they were trained on",
        ) from error


def check_complete(expected: Iterable[str], stored: Iterable[str]) -> None:
    """Raise ValueError if a stored weight is missing: libraries would silently initialise it."""
    if missing := sorted(set(expected) - set(stored)):
        raise ValueError(f"{len(missing)} of their weights are missing, such as {missing[0]}")


def layout_of(config: dict[str, Any]) -> Layout:
    return "peft" if "peft_type" in config else "mlx"


@contextmanager
def in_layout(folder: Path, layout: Layout, blocks: int) -> Generator[Path]:
    """Yield `folder` if it has this layout, else a temporary folder with the converted adapters.

    `blocks` is the number of blocks of the model. Raises ValueError, KeyError or TypeError if the
    layout cannot express the adapters, or the folder is damaged."""
    config = read_config(folder)
    if layout_of(config) == layout:
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        weights = stored.load_file(folder / FILES[layout_of(config)])
        peft, mlx = _roots(str(config["model" if layout == "peft" else "base_model_name_or_path"]))
        if layout == "peft":
            weights = {peft + name.removeprefix(mlx): of for name, of in weights.items()}
            converted, weights = _to_peft(config, weights)
        else:
            converted, weights = _to_mlx(config, weights, blocks=blocks)
            weights = {mlx + name.removeprefix(peft): of for name, of in weights.items()}
        base = base_of(folder)
        metadata = {"base": base} if layout == "peft" else {"format": "mlx"}
        converted |= {"base": base} if layout == "mlx" and base else {}
        stored.save_file(weights, Path(name) / FILES[layout], metadata=metadata)
        text = json.dumps(converted, indent=2) + "\n"
        (Path(name) / ADAPTER_CONFIG).write_text(text, encoding="utf-8")
        yield Path(name)


def _roots(model: str) -> tuple[str, str]:
    """Return the prefixes of a multimodal model's language weights in transformers and in mlx-lm.
    Both are empty for other models, and if the model's settings are not on this machine."""
    folder = snapshot(model)
    config: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        config = parse_json(read_text(folder / "config.json")) if folder else {}
    if "text_config" not in config:
        return "", ""
    text_only = str(config.get("model_type")).startswith("qwen3_5")  # in transformers
    return "model." if text_only else "model.language_model.", "language_model.model."


def read_config(folder: Path) -> dict[str, Any]:
    config = cast(dict[str, Any], parse_json(read_text(folder / ADAPTER_CONFIG)))
    if layout_of(config) == "mlx" and config["fine_tune_type"] != "lora":
        raise ValueError(f"fine_tune_type is {config['fine_tune_type']!r}, not lora")
    return config


def base_of(folder: Path) -> str:
    """Return the fingerprint of the weights that adapters were trained on; "" if unknown."""
    config = read_config(folder)
    if layout_of(config) == "mlx":
        return str(config.get("base", ""))
    return stored_base(folder / PEFT_WEIGHTS)


def stored_base(file: Path) -> str:
    """Return the fingerprint in the header of a safetensors file; "" if there is none."""
    with cast(Any, safe_open)(file, "np") as opened:
        return cast(dict[str, str], opened.metadata() or {}).get("base", "")


def _to_peft(config: dict[str, Any], weights: Arrays) -> tuple[dict[str, Any], Arrays]:
    lora = config["lora_parameters"]
    rank = int(lora["rank"])
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(config["model"]),
        "inference_mode": True,
        "r": rank,
        "lora_alpha": float(lora["scale"]) * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.rpartition(".")[0] for name in weights}),
    }
    named: Arrays = {}
    for name, values in weights.items():
        layer, _, key = name.rpartition(".")
        if values.ndim > 2:
            raise ValueError(f"peft has no adapters for the experts of {layer}")
        named[f"{PREFIX}{layer}.{TO_PEFT[key]}"] = np.ascontiguousarray(values.T)
    return settings, named


def _to_mlx(
    config: dict[str, Any], weights: Arrays, *, blocks: int
) -> tuple[dict[str, Any], Arrays]:
    if config["peft_type"] != "LORA":
        raise ValueError(f"peft_type is {config['peft_type']}, not LORA")
    for name in sorted(config.keys() - READ):
        if config[name] not in PLAIN.get(name, OFF):
            raise ValueError(f"mlx-lm has no equivalent of peft's {name} = {config[name]!r}")
    named: Arrays = {}
    places: dict[int, set[str]] = {}
    for name, values in weights.items():
        layer, _, kind = name.removeprefix(PREFIX).rpartition(".lora_")
        named[f"{layer}.{TO_MLX[f'lora_{kind}']}"] = np.ascontiguousarray(values.T)
        match = PLACE.fullmatch(layer)
        if match is None:
            raise ValueError(f"mlx-lm stores adapters of blocks only, not of {layer}")
        places.setdefault(int(match[1]), set()).add(match[2])
    rank = int(config["r"])
    settings = {
        "fine_tune_type": "lora",
        "num_layers": blocks - min(places, default=blocks),
        "lora_parameters": {
            "rank": rank,
            "scale": float(config["lora_alpha"])
            / (math.sqrt(rank) if config.get("use_rslora") else rank),
            "dropout": 0.0,
            "keys": sorted(set[str]().union(*places.values())),
        },
        "model": str(config["base_model_name_or_path"]),
    }
    return settings, named
