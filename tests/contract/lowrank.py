"""The step of low-rank adapters written plainly, in float64; and a model with packed weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor
from torch.nn.utils import parametrize

from ictcli.settings import OptimizerSettings

from .dense import DenseTrainer

ADAPTERS = "adapters.safetensors"


class LowRank(torch.nn.Module):
    """A weight W (out, in) as W + scale * (A B)^T, with A (in, rank) and B (rank, out)."""

    def __init__(self, A: np.ndarray, B: np.ndarray, scale: float) -> None:
        super().__init__()
        self.lora_a = torch.nn.Parameter(torch.from_numpy(A).double())
        self.lora_b = torch.nn.Parameter(torch.from_numpy(B).double())
        self.scale = scale

    def forward(self, W: Tensor) -> Tensor:
        return W + self.scale * (self.lora_a @ self.lora_b).T


class LowRankTrainer(DenseTrainer):
    """`DenseTrainer` of a model that is frozen but for adapters, whose first values an engine
    exported. Its reference is the model without them."""

    def __init__(self, folder: Path, settings: OptimizerSettings, exported: Path) -> None:
        super().__init__(folder, settings)
        self.model.requires_grad_(False)
        config = json.loads((exported / "adapter_config.json").read_text(encoding="utf-8"))
        scale = config["lora_parameters"]["scale"]
        self.adapters: dict[str, LowRank] = {}
        values = load_file(exported / ADAPTERS)
        for name in sorted({key.rsplit(".", 1)[0] for key in values}):
            added = LowRank(values[f"{name}.lora_a"], values[f"{name}.lora_b"], scale)
            parametrize.register_parametrization(self.model.get_submodule(name), "weight", added)
            self.adapters[name] = added
        trained: list[Any] = [p for p in self.model.parameters() if p.requires_grad]
        for group in self.optimizer.param_groups:
            group["params"] = trained

    def adapter_weights(self) -> dict[str, np.ndarray]:
        """A and B by the names of the exported file."""
        return self._each(lambda parameter: parameter.detach())

    def gradients(self) -> dict[str, np.ndarray]:
        """Of the last update, clipped."""
        return self._each(lambda parameter: parameter.grad)

    def _each(self, of: Any) -> dict[str, np.ndarray]:
        return {
            f"{name}.{key}": of(parameter).numpy().copy()
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
