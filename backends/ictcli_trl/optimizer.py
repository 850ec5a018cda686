"""AdamW on weights that accelerate may have spread over processes."""

from typing import Any

import torch
from accelerate import Accelerator
from ictcli_torch import optimizer
from torch import Tensor

from ictcli.recipe.tables import OptimizerSettings

from .tensors import local, scattered


class Optimizer(optimizer.Optimizer):
    """The torch engine's, of a model in float32, whose weights are their own masters."""

    moved = True
    """Whether the weights are others than when somebody, who copied them, set this to False."""

    def __init__(self, model: Any, settings: OptimizerSettings, accelerator: Accelerator) -> None:
        super().__init__(model, settings)
        self.accelerator = accelerator
        self.model, self.adamw = accelerator.prepare(model, self.adamw)
        """What computes gradients: `model` itself, within DistributedDataParallel or sharded."""
        own = accelerator.unwrap_model(self.model)
        self.weights = {name: p for name, p in own.named_parameters() if p.requires_grad}
        self.masters = dict(self.weights)

    def clip(self) -> float:
        weights = [w for w in self.masters.values() if w.grad is not None]
        if not weights:
            return 0.0
        norm: Any = self.accelerator.clip_grad_norm_(weights, self.clip_norm)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def step(self, lr: float) -> None:
        super().step(lr)
        self.moved = True

    def _take(self, master: Tensor, kind: str, value: Tensor) -> None:
        state: Any = self.adamw.state
        like = torch.zeros((), device=master.device) if kind == "step" else master
        state[master][kind] = scattered(value, like)

    @torch.no_grad()
    def load_parts(self, state: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
        """`load` of what this process wrote: its own parts."""
        self.moved = True
        self.adamw.state.clear()
        for name, master in self.masters.items():
            local(master).copy_(weights[name])
        held: Any = self.adamw.state
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            master = self.masters[name]
            if value.ndim == 0:
                held[master][kind] = value.to(master.device)
            else:
                held[master][kind] = torch.zeros_like(master)
                local(held[master][kind]).copy_(value)

    @torch.no_grad()
    def load(self, state: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
        self.moved = True
        self.adamw.state.clear()
        for name, master in self.masters.items():
            master.copy_(scattered(state.get(f"master/{name}", weights[name]), master))
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            if kind != "master":
                self._take(self.masters[name], kind, value)
