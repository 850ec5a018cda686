"""The interface that every backend implements.

An engine holds a model, its tokenizer and its optimiser. It samples, evaluates log-probabilities
and takes optimiser steps with given token weights. See `ictcli.types` for the shapes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ictcli.engine.budget import Budget
from ictcli.engine.update import Update
from ictcli.types import BoolArray, FloatArray, IntArray, OnTokens, Rollouts, Sampling, UpdateReport


class Engine(Protocol):
    """A model on a device. A backend's `build(model, settings, optimizer, adapter)` returns one."""

    tokenizer: Any
    """The model's own tokenizer: a Hugging Face `PreTrainedTokenizerBase`."""
    context: int
    """Maximum length of a prompt and its response together, in tokens."""
    stop_ids: tuple[int, ...]
    """Token ids that end a response, from the model's generation settings and tokenizer."""
    budget: Budget
    """Limits on how much is computed at once, lowered when memory runs out."""
    ranks: Any
    """`Alone`, or the `Communicator` of a launch of several processes (ranks). All ranks call each
    method at the same time; only rank 0 writes files."""

    def describe(self) -> dict[str, Any]:
        """Return engine, device, dtype, parameters and versions, for environment.json."""
        ...

    def check_tokens(self, *rows: Sequence[int] | IntArray) -> None:
        """Raise UserError if the model has no embedding for a token id."""
        ...

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        """Sample `group` responses per prompt, with the `wanted` statistics, which are names in
        `ictcli.algorithm.quantities.STATISTICS`.

        Row r draws its token t with uniform number (r, t) of `seed`, so batching changes results
        only by the rounding of the logits. `on_tokens` is called with tokens as they are drawn,
        with t rising from 0 in each row, and again from 0 if memory ran out; an exception that it
        raises ends the sampling. Raises NotFiniteError if logits are infinite or NaN."""
        ...

    def score(
        self,
        rollouts: Rollouts,
        wanted: Sequence[str],
        temperature: float = 1.0,
        *,
        reference: bool = False,
    ) -> dict[str, FloatArray]:
        """Return the `wanted` statistics of rollouts by name, (B, T) float32, 0 after a row's end.
        `logp` is the log-probabilities of the tokens at `temperature`.

        `reference` evaluates the reference policy (needs `keep_reference`)."""
        ...

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        """Return (N, V) float32 logits at the N True places of `where` (B, T), row-major."""
        ...

    def compute_in_float32(self) -> None:
        """Convert the model to float32, for later evaluations; the weights keep their values."""
        ...

    def keep_reference(self) -> None:
        """Make the current weights the reference policy; with adapters, the model without them."""
        ...

    def update(self, update: Update, lr: float) -> UpdateReport:
        """Take an optimiser step on the loss -sum w * Psi (`ictcli.algorithm.objective`). If loss
        or gradient are not finite, weights and optimiser stay unchanged."""
        ...

    def reset_optimizer(self) -> None:
        """Forget the optimiser's moments and steps, as if the model had just been loaded."""
        ...

    def save(self, folder: Path) -> None:
        """Write the trained weights and the optimiser's state to an existing folder."""
        ...

    def restore(self, folder: Path) -> None:
        """Load exactly what `save` wrote; without an optimiser, the weights only. Called on rank 0;
        then all ranks call `align`."""
        ...

    def align(self) -> None:
        """Copy rank 0's weights and optimiser state exactly to all ranks."""
        ...

    def export(self, folder: Path) -> None:
        """Write the model and tokenizer in Hugging Face layout into an existing folder, with
        adapters merged and quantised weights unpacked. The MLX engine keeps mlx-lm's names of the
        weights of mixtures of experts."""
        ...

    def export_adapter(self, folder: Path) -> None:
        """Write the adapters into an existing folder, in the layout of mlx-lm or peft."""
        ...

    def peak_memory(self) -> int:
        """Return the peak memory use in bytes: of the device, or else of the process (RSS)."""
        ...
