"""AdamW on float32 master weights, for models of any dtype."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ictcli.recipe.tables import OptimizerSettings


class Optimizer:
    """AdamW with gradient clipping on the float32 masters of a model's trained weights.

    A bfloat16 number has 8 binary digits: around 0.02 neighbours are 1e-4 apart, so a step of 1e-6
    would always be rounded away, and so would the small gradients of many micro-batches. A bfloat16
    model therefore has float32 masters, which sum the gradients and are updated by AdamW. Its own
    weights are the masters, rounded. A float32 model's weights are their own masters.
    """

    kinds = ("master", "exp_avg", "exp_avg_sq", "step")

    def __init__(self, model: nn.Module, settings: OptimizerSettings) -> None:
        self.clip_norm = settings.clip_norm
        self.weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.masters: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            if weight.dtype == torch.float32:
                self.masters[name] = weight
            else:
                self.masters[name] = weight.detach().float()
                weight.register_post_accumulate_grad_hook(partial(_hand_over, self.masters[name]))
        self.adamw = torch.optim.AdamW(
            self.masters.values(),
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,  # in place: the other variants allocate copies of the largest weights
        )

    def clip(self) -> float:
        """Scale the summed gradient to a norm of at most `clip_norm`; return the original norm."""
        gradients = [master for master in self.masters.values() if master.grad is not None]
        if not gradients:
            return 0.0
        norm: Any = nn.utils.clip_grad_norm_(gradients, self.clip_norm)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)  # sharded

    def step(self, lr: float) -> None:
        for options in self.adamw.param_groups:
            options["lr"] = lr
        self.adamw.step()
        self._round()

    def reset(self) -> None:
        self.adamw.state.clear()

    def drop_gradient(self) -> None:
        """Drop the gradient, including what an interrupted pass left on the model's own weights."""
        self.adamw.zero_grad(set_to_none=True)
        for weight in self.weights.values():
            weight.grad = None

    @torch.no_grad()
    def _round(self) -> None:
        for name, weight in self.weights.items():
            if self.masters[name] is not weight:
                weight.copy_(self.masters[name])

    def state(self) -> dict[str, Tensor]:
        """Return AdamW's state and all masters but a model's own weights, by KIND/NAME."""
        tensors: dict[str, Tensor] = {}
        for name, master in self.masters.items():
            if master is not self.weights[name]:
                tensors[f"master/{name}"] = master
            for kind, value in self.adamw.state.get(master, {}).items():
                tensors[f"{kind}/{name}"] = value
        return tensors

    @torch.no_grad()
    def load(self, state: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
        """Restore what `state` returned, for a model with these `weights` of any dtype. Weights
        without a stored master become the masters."""
        self.adamw.state.clear()
        for name, master in self.masters.items():
            master.copy_(state.get(f"master/{name}", weights[name]))
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            if kind != "master":
                master = self.masters[name]
                self.adamw.state[master][kind] = value.to(master.device)
        self._round()


def _hand_over(master: Tensor, weight: Any) -> None:
    """Add a weight's gradient to its master's, in float32."""
    gradient = weight.grad.float()
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)
    weight.grad = None
