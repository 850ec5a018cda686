"""AdamW on float32 weights, whatever the model computes in."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ictcli.errors import UserError
from ictcli.settings import OptimizerSettings

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
"""What torch.optim.AdamW holds for a weight."""


class Optimizer:
    """AdamW with gradient clipping over a model's float32 master weights.

    A bfloat16 number has 8 binary digits: around 0.02 its neighbours are 1e-4 apart, so a step of
    1e-6 would always be rounded away, and so would the small gradients of many micro-batches. A
    bfloat16 model therefore has float32 copies that gradients are added to and AdamW steps, and
    its own weights are these, rounded. A float32 model's weights are their own masters.
    """

    def __init__(self, model: nn.Module, settings: OptimizerSettings) -> None:
        self.clip_norm = settings.clip_norm
        self.weights = dict(model.named_parameters())
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
        """Scale the accumulated gradient to a norm of at most `clip_norm`; its norm before."""
        gradients = [master for master in self.masters.values() if master.grad is not None]
        return float(nn.utils.clip_grad_norm_(gradients, self.clip_norm)) if gradients else 0.0

    def step(self, lr: float) -> None:
        for options in self.adamw.param_groups:
            options["lr"] = lr
        self.adamw.step()
        self._round()

    def drop_gradient(self) -> None:
        self.adamw.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _round(self) -> None:
        for name, weight in self.weights.items():
            if self.masters[name] is not weight:
                weight.copy_(self.masters[name])

    def state(self) -> dict[str, Tensor]:
        """Moments and, where they are not the model's own weights, masters: KIND/NAME to tensor."""
        found: dict[str, Tensor] = {}
        for name, master in self.masters.items():
            if master is not self.weights[name]:
                found[f"master/{name}"] = master
            for kind, value in self.adamw.state.get(master, {}).items():
                found[f"{kind}/{name}"] = value
        return found

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave, of a model with the same weights."""
        if foreign := {entry.split("/")[0] for entry in state} - {"master", *MOMENTS}:
            raise UserError(
                f"The optimiser's state ({', '.join(sorted(foreign))}) is of another engine.",
                "resume with the engine the run began with",
            )
        self.adamw.state.clear()
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            master = self.masters[name]
            if kind == "master":
                master.copy_(value)
            else:
                self.adamw.state[master][kind] = value.to(master.device)
        self._round()


def _hand_over(master: Tensor, weight: Any) -> None:
    """Add a micro-batch's gradient to the master's, in float32."""
    gradient = weight.grad.float()
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)
    weight.grad = None
