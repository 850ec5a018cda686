"""AdamW on float32 master weights, for models of any dtype."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map, tree_map_with_path, tree_unflatten

from ictcli.recipe.tables import OptimizerSettings

from .device import Memory
from .files import flat, number


class Optimizer:
    """AdamW with gradient clipping on float32 masters of the trained weights. In 16 bits small
    steps would be rounded away, so the model's weights are rounded copies of the masters."""

    kinds = ("adamw", "master")

    def __init__(
        self, model: nn.Module, settings: OptimizerSettings, memory: Memory, *, compiled: bool
    ) -> None:
        self.model, self.memory = model, memory
        self.clip_norm = settings.clip_norm
        self.gradient: Any = None
        """Sum of the passes' float32 gradients, a tree like the weights; None before any pass."""
        self.masters: Any = tree_map(lambda x: x.astype(mx.float32), model.trainable_parameters())
        self.settings = settings
        self.reset()
        self._apply = mx.compile(self._pure) if compiled else self._pure

    def add(self, gradient: Any) -> None:
        """Add the float32 gradient of a pass to the sum."""
        self.gradient = (
            gradient if self.gradient is None else tree_map(mx.add, self.gradient, gradient)
        )

    def clip(self) -> float:
        """Scale the summed gradient to a norm of at most `clip_norm`; return the original norm."""
        if self.gradient is None:
            return 0.0
        squares = (g.square().sum() for g in flat(self.gradient).values())
        norm = number(mx.sqrt(sum(squares, mx.array(0.0))))
        scale = min(1.0, self.clip_norm / (norm + 1e-6))
        if scale < 1:
            self.gradient = tree_map(lambda g: g * scale, self.gradient)
        return norm

    def reset(self) -> None:
        self.adamw = optim.AdamW(
            learning_rate=0.0,
            betas=[self.settings.beta1, self.settings.beta2],
            eps=self.settings.eps,
            weight_decay=self.settings.weight_decay,
            bias_correction=True,  # off by default in MLX
        )
        self.adamw.init(self.masters)

    def drop_gradient(self) -> None:
        self.gradient = None

    def _pure(self, masters: Any, gradient: Any, state: Any) -> tuple[Any, Any]:
        """Return the masters and AdamW's state after a step. A pure function can be compiled."""
        kept, self.adamw.state = self.adamw.state, state
        try:
            return self.adamw.apply_gradients(gradient, masters), self.adamw.state
        finally:
            self.adamw.state = kept

    def step(self, lr: float) -> None:
        """Apply the summed gradient, and drop it so that the step can reuse its memory."""
        gradient, self.gradient = self.gradient, None
        self.adamw.learning_rate = lr
        state = tree_map(lambda x: x, self.adamw.state)  # apply_gradients changes its argument
        self.masters, state = self._apply(self.masters, gradient, state)
        del gradient
        self.adamw.state = state
        self._round()
        # computes the step now, so that the gradient and the old weights are freed
        mx.eval(self.model.trainable_parameters(), self.masters, self.adamw.state)
        self.memory.watch("The optimiser's step", "train adapters: adapter.kind=lora")

    def _round(self) -> None:
        weights = self.model.trainable_parameters()
        self.model.update(tree_map(lambda w, m: m.astype(w.dtype), weights, self.masters))

    def state(self) -> dict[str, mx.array]:
        """Return AdamW's moments and step count, and the masters of 16-bit weights."""
        arrays = {f"adamw/{name}": value for name, value in flat(self.adamw.state).items()}
        weights = flat(self.model.trainable_parameters())
        for name, master in flat(self.masters).items():
            if weights[name].dtype != mx.float32:
                arrays[f"master/{name}"] = master
        return arrays

    def load(self, state: dict[str, mx.array], weights: dict[str, mx.array]) -> None:
        """Restore what `state` returned, for a model with these `weights` of any dtype."""
        parts: dict[str, dict[str, mx.array]] = {"adamw": {}, "master": {}}
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            parts[kind][name] = value
        self.adamw.state = tree_unflatten(list(parts["adamw"].items()))
        masters = weights | parts["master"]
        self.masters = tree_map_with_path(
            lambda name, _: masters[name].astype(mx.float32), self.model.trainable_parameters()
        )
        self._round()
        # computes the new arrays now, so that the old ones are freed
        mx.eval(self.model.trainable_parameters(), self.masters, self.adamw.state)
