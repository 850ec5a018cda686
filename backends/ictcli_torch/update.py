"""The forward and backward pass of one micro-batch (`ictcli.engine.core` loops over them)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import policy_loss
from ictcli.engine.packing import CHUNK_LOGITS, MicroBatch, chunks
from ictcli.engine.update import Update
from ictcli.types import FloatArray

from . import namespace
from .model import head_logits, recomputing
from .prefix import shares_prompts, wanted_states


class Passes:
    """Forward and backward passes of one model. The LM head takes a chunk of states at a time, so
    that its logits never lie in memory all at once."""

    xp = namespace

    def __init__(self, engine: Any) -> None:
        self.model, self.root = engine.model, engine.root
        self.recompute = engine.settings.gradient_checkpointing
        self.share = shares_prompts(self.model)
        self.chunk = max(CHUNK_LOGITS // engine.vocabulary, 1)

    @torch.inference_mode()
    def evaluate(self, batch: MicroBatch, of: Callable[[Tensor, Tensor], Tensor]) -> FloatArray:
        """What `of` makes of the logits (n, V) and the tokens (n,) at the wanted places, whose
        first axis becomes (N,)."""
        states, targets = wanted_states(self.model, batch), self._on_device(batch.targets).long()
        parts = [
            of(head_logits(self.model, states[c]), targets[c]).cpu().numpy()
            for c in chunks(len(states), self.chunk)
        ]
        return np.concatenate(parts)

    def backward(
        self, batch: MicroBatch, terms: dict[str, FloatArray], whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one pass over the `whole` to the parameters' `.grad`; returns the
        pass's loss, log pi (N,) and summed KL."""
        arrays = {name: self._on_device(values) for name, values in terms.items()}
        arrays["targets"] = self._on_device(batch.targets).long()
        losses, kls = list[Tensor](), list[Tensor]()  # on the device: a chunk waits for no other
        logp, gradients = list[Tensor](), list[Tensor]()
        model = self.root.model if self.root else self.model
        with recomputing(model, self.recompute):
            states = self.root(wanted_states, batch) if self.root else wanted_states(model, batch)
            for part in chunks(len(states), self.chunk):
                leaf = states[part].detach().requires_grad_()
                some = {name: values[part] for name, values in arrays.items()}
                figures = policy_loss(
                    namespace, head_logits(model, leaf), some["targets"], some, whole.objective
                )
                figures[0].backward()
                losses.append(figures[0].detach())
                kls.append(figures[2].detach().sum())
                logp.append(figures[1].detach())
                assert leaf.grad is not None
                gradients.append(leaf.grad)
            states.backward(torch.cat(gradients))
        loss, kl = (sum(torch.stack(values).tolist()) for values in (losses, kls))
        return loss, torch.cat(logp).cpu().numpy(), kl

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)
