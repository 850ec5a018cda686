"""AdamW on float32 weights for any type of the model."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map, tree_map_with_path, tree_unflatten

from ictcli.recipe.tables import OptimizerSettings

from .device import Memory
from .files import flat, number


class Optimizer:
    """AdamW with gradient clipping over float32 masters of what the model trains: 16 bits would
    round small steps away, so that the model's own weights are these, rounded."""

    kinds = ("adamw", "master")

    def __init__(
        self, model: nn.Module, settings: OptimizerSettings, memory: Memory, *, compiled: bool
    ) -> None:
        self.model, self.memory = model, memory
        self.clip_norm = settings.clip_norm
        self.gradient: Any = None
        """Float32, by the names of the trained weights; None before a pass."""
        self.masters: Any = tree_map(lambda x: x.astype(mx.float32), model.trainable_parameters())
        self.settings = settings
        self.reset()
        self._apply = mx.compile(self._pure) if compiled else self._pure

    def add(self, gradient: Any) -> None:
        """Add the float32 gradient of a pass."""
        self.gradient = (
            gradient if self.gradient is None else tree_map(mx.add, self.gradient, gradient)
        )

    def clip(self) -> float:
        """Scale the summed gradient to a norm of at most `clip_norm`; its norm before."""
        if self.gradient is None:
            return 0.0
        squares = (g.square().sum() for g in flat(self.gradient).values())
        norm = number(mx.sqrt(sum(squares, mx.array(0.0))))
        scale = min(1.0, self.clip_norm / (norm + 1e-6))
        if scale < 1:
            self.gradient = tree_map(lambda g: g * scale, self.gradient)
        return norm

    def reset(self) -> None:
        """Begin without moments, at step 0."""
        self.adamw = optim.AdamW(
            learning_rate=0.0,
            betas=[self.settings.beta1, self.settings.beta2],
            eps=self.settings.eps,
            weight_decay=self.settings.weight_decay,
            bias_correction=True,  # mlx's default leaves it out
        )
        self.adamw.init(self.masters)

    def drop_gradient(self) -> None:
        self.gradient = None

    def _pure(self, masters: Any, gradient: Any, state: Any) -> tuple[Any, Any]:
        """Compute a step that reads and keeps only what is passed, so that it can be compiled."""
        kept, self.adamw.state = self.adamw.state, state
        try:
            return self.adamw.apply_gradients(gradient, masters), self.adamw.state
        finally:
            self.adamw.state = kept

    def step(self, lr: float) -> None:
        """Step, and drop the gradient: its memory is used while the step is made."""
        gradient, self.gradient = self.gradient, None
        self.adamw.learning_rate = lr
        state = tree_map(lambda x: x, self.adamw.state)  # apply_gradients writes into it
        self.masters, state = self._apply(self.masters, gradient, state)
        del gradient
        self.adamw.state = state
        self._round()
        # ends the step: gradient and old weights can be dropped
        mx.eval(self.model.trainable_parameters(), self.masters, self.adamw.state)
        self.memory.watch("The optimiser's step", "train adapters: adapter.kind=lora")

    def _round(self) -> None:
        own = self.model.trainable_parameters()
        self.model.update(tree_map(lambda w, m: m.astype(w.dtype), own, self.masters))

    def state(self) -> dict[str, mx.array]:
        """Return moments, step and, where they are not the model's own weights, masters."""
        arrays = {f"adamw/{name}": value for name, value in flat(self.adamw.state).items()}
        own = flat(self.model.trainable_parameters())
        for name, master in flat(self.masters).items():
            if own[name].dtype != mx.float32:
                arrays[f"master/{name}"] = master
        return arrays

    def load(self, state: dict[str, mx.array], weights: dict[str, mx.array]) -> None:
        """Take back what `state` gave, of a model with these `weights`, trained in any type."""
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
        # the old ones can be dropped
        mx.eval(self.model.trainable_parameters(), self.masters, self.adamw.state)
