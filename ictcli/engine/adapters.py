"""Low-rank adapters as both engines know them: their first values, and their files in mlx-lm's
layout or peft's.

| | mlx-lm | peft |
|---|---|---|
| weights | adapters.safetensors | adapter_model.safetensors |
| A | NAME.lora_a (in, rank) | base_model.model.NAME.lora_A.weight (rank, in) |
| B | NAME.lora_b (rank, out) | base_model.model.NAME.lora_B.weight (out, rank) |
| the product counts | scale times | lora_alpha / r times |
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
TO_MLX = {there: here for here, there in TO_PEFT.items()}
PLACE = re.compile(r"(?:.*\.)?layers\.(\d+)\.(.+)")
"""The name of a layer within a block."""

READ = frozenset((
    "peft_type", "base_model_name_or_path", "target_modules", "r", "lora_alpha", "use_rslora",
    "task_type", "auto_mapping", "peft_version", "revision", "inference_mode", "megatron_core",
    "lora_dropout",  # nothing is dropped but in training
    "exclude_modules", "layers_to_transform", "layers_pattern",  # the weights name the layers
    "qalora_group_size",  # of use_qalora
))  # fmt: skip
"""Settings of peft's that are read here, that the names of the weights say as well, or that change
nothing."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
}
"""Settings at whose values adapters are B A on top of the model's own weights; other first values,
like PiSSA's, change these too."""

REFUSING = frozenset(("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"))
REFUSED = frozenset(("conv1d", "out_proj"))
"""Kinds of model, and their layers that peft puts no adapters on, as Mamba's kernels read the
weights past them."""

OFF: tuple[Any, ...] = (None, False, {}, [])
"""What any other setting of peft's has to be, known or of a version to come."""


def first_values(seed: int, name: str, inputs: int, rank: int) -> npt.NDArray[np.float32]:
    """Return A (inputs, rank) of a new adapter, uniform within 1 / sqrt(inputs), as both libraries
    draw it; B begins at 0. `name` is the layer's place, like 3.self_attn.q_proj, so that a seed
    gives a layer the same values in every engine and with any other adapters."""
    drawn = generator(seed, "adapter", name).random((inputs, rank), dtype=np.float32)
    return (2 * drawn - 1) / np.float32(math.sqrt(inputs))


def choose_layers(
    settings: NewAdapters, blocks: Sequence[Iterable[str]], kind: str
) -> list[tuple[int, str]]:
    """Return block and name of each layer to adapt, of the linear layers that every block has.
    Those that peft refuses in models of this kind are left out, so that every engine has the same.

    Raises UserError for targets that no block has, or none of the chosen blocks."""
    refused = REFUSED if kind in REFUSING else frozenset[str]()
    if asked := sorted({_last(target) for target in settings.targets} & refused):
        raise UserError(
            f"adapter.targets: peft puts no adapter on {asked[0]} of a model of the kind {kind}.",
            "leave it out",
        )
    names = [[name for name in block if _last(name) not in refused] for block in blocks]
    known = set[str]().union(*names)
    if not known:
        raise UserError(
            f"The blocks of a model of the kind {kind} have no layer that takes adapters.",
            "adapter.kind=none trains all weights",
        )
    short = {_last(name) for name in known}
    for target in settings.targets:
        if target not in short | known:
            raise UserError(
                f"adapter.targets: the model has no linear layer {target!r}"
                f"{nearest(target, sorted(short))}.",
                f"it has {', '.join(sorted(short))}",
            )
    targets = set(settings.targets) or known
    first = max(len(names) - (settings.layers or len(names)), 0)
    chosen = [
        (block, name)
        for block in range(first, len(names))
        for name in names[block]
        if name in targets or _last(name) in targets
    ]
    if not chosen:
        raise UserError(
            f"The last {settings.layers} blocks have no layer that adapter.targets names.",
            "adapter.layers=0 takes all blocks",
        )
    return chosen


@contextmanager
def putting_on(model: str) -> Generator[None]:
    """Turn what a library raises while it puts adapters on a model into a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of a kind of model that it does not know
        raise UserError(
            f"The model {model} takes no such adapters: {text_of(error).rstrip('.')}.",
            "adapter.targets names the layers to adapt; adapter.kind=none trains all weights",
        ) from error


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


@contextmanager
def reading(folder: Path, layout: Layout, blocks: int, base: str) -> Generator[Path]:
    """Open adapters `in_layout` for the weights of fingerprint `base`; turn what is raised within
    into a UserError."""
    try:
        if base_of(folder) not in ("", base):
            raise ValueError("they were trained on other weights")
        with in_layout(folder, layout, blocks) as converted:
            yield converted
    except Exception as error:  # whatever a broken folder makes the library raise
        reason = f"{type(error).__name__}: {text_of(error)}"
        raise UserError(
            f"The adapters in {folder} do not fit the model: {reason}.",
            f"{ADAPTER_CONFIG} says which model they were trained on",
        ) from error


def check_complete(expected: Iterable[str], stored: Iterable[str]) -> None:
    """Raise ValueError unless a file holds all weights of the adapters: libraries would fill in new
    ones."""
    if missing := sorted(set(expected) - set(stored)):
        raise ValueError(f"{len(missing)} of their weights are missing, {missing[0]} first")


def layout_of(config: dict[str, Any]) -> Layout:
    return "peft" if "peft_type" in config else "mlx"


@contextmanager
def in_layout(folder: Path, layout: Layout, blocks: int) -> Generator[Path]:
    """Yield the folder where it has this layout, else a temporary one with the adapters in it.

    `blocks` is how many the model has: mlx-lm counts adapted ones from the last. Raises ValueError,
    KeyError or TypeError where the other layout cannot say the same, or the folder is damaged.
    """
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
        about = {"base": base} if layout == "peft" else {"format": "mlx"}
        converted |= {"base": base} if layout == "mlx" and base else {}
        stored.save_file(weights, Path(name) / FILES[layout], metadata=about)
        text = json.dumps(converted, indent=2) + "\n"
        (Path(name) / ADAPTER_CONFIG).write_text(text, encoding="utf-8")
        yield Path(name)


def _roots(model: str) -> tuple[str, str]:
    """Return what the names of a multimodal model's language model begin with, in transformers and
    in mlx-lm, as far as its settings are here; empty for others."""
    folder = snapshot(model)
    config: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        config = parse_json(read_text(folder / "config.json")) if folder else {}
    if "text_config" not in config:
        return "", ""
    alone = str(config.get("model_type")).startswith("qwen3_5")  # which transformers loads alone
    return "model." if alone else "model.language_model.", "language_model.model."


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
    """Return the fingerprint in the header of a safetensors file; "" where there is none."""
    with cast(Any, safe_open)(file, "np") as opened:
        return cast(dict[str, str], opened.metadata() or {}).get("base", "")


def _to_peft(config: dict[str, Any], weights: Arrays) -> tuple[dict[str, Any], Arrays]:
    about = config["lora_parameters"]
    rank = int(about["rank"])
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(config["model"]),
        "inference_mode": True,
        "r": rank,
        "lora_alpha": float(about["scale"]) * rank,
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
        raise ValueError(f"peft's kind is {config['peft_type']}, not LORA")
    for name in sorted(config.keys() - READ):
        if config[name] not in PLAIN.get(name, OFF):
            raise ValueError(f"mlx-lm has nothing like peft's {name} = {config[name]!r}")
    named: Arrays = {}
    places: dict[int, set[str]] = {}
    for name, values in weights.items():
        layer, _, kind = name.removeprefix(PREFIX).rpartition(".lora_")
        named[f"{layer}.{TO_MLX[f'lora_{kind}']}"] = np.ascontiguousarray(values.T)
        match = PLACE.fullmatch(layer)
        if match is None:
            raise ValueError(f"mlx-lm's layout knows blocks only, and {layer} is in none")
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
