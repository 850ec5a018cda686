"""AdamW on float32 weights, whatever the model computes in."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map, tree_map_with_path, tree_unflatten

from ictcli.errors import UserError
from ictcli.recipe.tables import OptimizerSettings

from .files import flat


class Optimizer:
    """AdamW with gradient clipping over float32 master weights of what the model trains.

    A bfloat16 number has 8 binary digits: around 0.02 its neighbours are 1e-4 apart, so a step of
    1e-6 would always be rounded away. Weights of 16 bits therefore have float32 copies that AdamW
    steps, and the model's own are these, rounded. Float32 weights are their own masters.
    """

    def __init__(self, model: nn.Module, settings: OptimizerSettings, *, compiled: bool) -> None:
        self.model = model
        self.clip_norm = settings.clip_norm
        self.masters: Any = _float32(model.trainable_parameters())
        self.adamw = optim.AdamW(
            learning_rate=0.0,
            betas=[settings.beta1, settings.beta2],
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            bias_correction=True,  # mlx's default leaves it out
        )
        self.adamw.init(self.masters)
        self._apply = mx.compile(self._pure) if compiled else self._pure

    def _pure(self, masters: Any, gradient: Any, state: Any) -> tuple[Any, Any]:
        """Nothing is read or kept but what is passed: so it can be compiled, and not go stale."""
        kept, self.adamw.state = self.adamw.state, state
        try:
            return self.adamw.apply_gradients(gradient, masters), self.adamw.state
        finally:
            self.adamw.state = kept

    def step(self, held: list[Any], grad_norm: float, lr: float) -> None:
        """Clip the gradient of this norm to `clip_norm`, and step. It is taken out of `held`, so
        that its memory can be used while the step is made."""
        gradient = held.pop()
        scale = min(1.0, self.clip_norm / (grad_norm + 1e-6))
        if scale < 1:
            gradient = tree_map(lambda g: g * scale, gradient)
        self.adamw.learning_rate = lr
        state = tree_map(lambda x: x, self.adamw.state)  # apply_gradients writes into it
        self.masters, state = self._apply(self.masters, gradient, state)
        del gradient
        self.adamw.state = state
        self._round()
        # ends the step: gradient and old weights can be dropped
        mx.eval(self.model.trainable_parameters(), self.masters, self.adamw.state)

    def _round(self) -> None:
        own = self.model.trainable_parameters()
        self.model.update(tree_map(lambda w, m: m.astype(w.dtype), own, self.masters))

    def state(self) -> dict[str, mx.array]:
        """Moments, step and, where they are not the model's own weights, masters."""
        arrays = {f"adamw/{name}": value for name, value in flat(self.adamw.state).items()}
        own = flat(self.model.trainable_parameters())
        for name, master in flat(self.masters).items():
            if own[name].dtype != mx.float32:
                arrays[f"master/{name}"] = master
        return arrays

    def load(self, state: dict[str, mx.array]) -> None:
        """Take back what `state` gave, of a model with the same weights."""
        kinds: dict[str, dict[str, mx.array]] = {"adamw": {}, "master": {}}
        for entry, value in state.items():
            kind, name = entry.split("/", 1)
            if kind not in kinds:
                raise UserError(
                    f"The optimiser's state ({kind}) is of another engine.",
                    "resume with the engine the run began with",
                )
            kinds[kind][name] = value
        self.adamw.state = tree_unflatten(list(kinds["adamw"].items()))
        self.masters = tree_map_with_path(
            lambda name, own: kinds["master"].get(name, own),
            _float32(self.model.trainable_parameters()),
        )
        self._round()
        mx.eval(self.masters, self.adamw.state)  # the old ones can be dropped


def norm(gradient: Any) -> mx.array:
    """Global L2 norm of a tree."""
    return mx.sqrt(sum((g.square().sum() for g in flat(gradient).values()), mx.array(0.0)))


def _float32(tree: Any) -> Any:
    return tree_map(lambda x: x.astype(mx.float32), tree)
