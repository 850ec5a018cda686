"""The step of low-rank adapters written plainly, in float64; and a model with packed weights."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor
from torch.nn.utils import parametrize

from ictcli.recipe.tables import NewAdapters, OptimizerSettings
from ictcli.types import FloatArray

from .dense import DenseTrainer

CONFIG = "adapter_config.json"
ADAPTERS = {"mlx": "adapters.safetensors", "torch": "adapter_model.safetensors"}
"""Where each engine's library has adapters."""

LORA = NewAdapters(kind="lora", rank=4, alpha=8, seed=3)


def files_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The weights and the settings of exported adapters."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return folder / ADAPTERS["torch" if "peft_type" in config else "mlx"], config


def named_alike(values: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Adapters by NAME.lora_a (in, rank), NAME.lora_b (rank, out), whatever engine or library
    they are of."""
    found: dict[str, FloatArray] = {}
    for name, value in values.items():
        if ".lora_" not in name or name.endswith(("lora_a", "lora_b")):
            found[name] = value
            continue
        layer, kind = name.removeprefix("base_model.model.").split(".lora_")
        found[f"{layer}.lora_{kind[0].lower()}"] = value.T
    return found


def exported_adapters(engine: Any, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    engine.export_adapter(folder)
    return folder


def adapters_in(folder: Path) -> dict[str, FloatArray]:
    """A and B by name."""
    return named_alike(load_file(files_of(folder)[0]))


def adapters_of(engine: Any) -> dict[str, FloatArray]:
    with TemporaryDirectory() as folder:
        return adapters_in(exported_adapters(engine, Path(folder)))


def scale_of(folder: Path) -> float:
    config = files_of(folder)[1]
    if "peft_type" in config:
        return config["lora_alpha"] / config["r"]
    return config["lora_parameters"]["scale"]


def frozen_weights(engine: Any) -> dict[str, bytes]:
    """Every weight that is not trained, to the bit."""
    if engine.describe()["engine"] == "torch":
        return {
            name: p.detach().view(torch.uint8).cpu().numpy().tobytes()
            for name, p in engine.model.named_parameters()
            if not p.requires_grad
        }
    from mlx.utils import tree_flatten

    trained = {name for name, _ in tree_flatten(engine.model.trainable_parameters())}
    weights = dict(tree_flatten(engine.model.parameters()))
    return {name: bytes(memoryview(w)) for name, w in weights.items() if name not in trained}


class LowRank(torch.nn.Module):
    """A weight W (out, in) as W + scale * (A B)^T, with A (in, rank) and B (rank, out)."""

    def __init__(self, A: np.ndarray, B: np.ndarray, scale: float) -> None:
        super().__init__()
        self.lora_a = torch.nn.Parameter(torch.from_numpy(A.copy()).double())
        self.lora_b = torch.nn.Parameter(torch.from_numpy(B.copy()).double())
        self.scale = scale

    def forward(self, W: Tensor) -> Tensor:
        return W + self.scale * (self.lora_a @ self.lora_b).T


class LowRankTrainer(DenseTrainer):
    """`DenseTrainer` of a model that is frozen but for adapters, whose first values an engine
    exported. Its reference is the model without them."""

    def __init__(self, folder: Path, settings: OptimizerSettings, exported: Path) -> None:
        super().__init__(folder, settings)
        self.model.requires_grad_(False)
        scale = scale_of(exported)
        self.adapters: dict[str, LowRank] = {}
        values = adapters_in(exported)
        for name in sorted({key.rsplit(".", 1)[0] for key in values}):
            added = LowRank(values[f"{name}.lora_a"], values[f"{name}.lora_b"], scale)
            parametrize.register_parametrization(self.model.get_submodule(name), "weight", added)
            self.adapters[name] = added
        trained: list[Any] = [p for p in self.model.parameters() if p.requires_grad]
        for group in self.optimizer.param_groups:
            group["params"] = trained

    def adapter_weights(self) -> dict[str, np.ndarray]:
        """A and B by the names of the exported file."""
        return {
            f"{name}.{key}": parameter.detach().numpy().copy()
            for name, added in self.adapters.items()
            for key, parameter in added.named_parameters()
        }


def make_quantised(like: Path, folder: Path, bits: int = 4, mode: str = "affine") -> Path:
    """The model of another folder in few bits, written by mlx-lm."""
    import mlx.nn as nn
    from mlx_lm.utils import load_model, save_config, save_model

    packed: dict[str, Any] = {"group_size": 32, "bits": bits}
    packed |= {} if mode == "affine" else {"mode": mode}
    shutil.copytree(like, folder)
    model, config = load_model(like)
    nn.quantize(model, **packed)
    save_model(folder, model)
    save_config({**config, "quantization": packed}, folder / "config.json")
    return folder
