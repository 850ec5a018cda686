"""The seam: what a backend must do.

An engine holds a model, its tokenizer and its optimiser. It samples, evaluates log-probabilities
and steps; which tokens count and how much is decided outside it. See `ictcli.types` for the shapes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ictcli.engine.budget import Budget
from ictcli.engine.update import Update
from ictcli.types import BoolArray, FloatArray, IntArray, OnTokens, Rollouts, Sampling, UpdateReport


class Engine(Protocol):
    """A model on a device. Built by `build(model, settings, optimizer, adapter)`; nothing else is
    global."""

    tokenizer: Any
    """The model's own tokenizer: a Hugging Face `PreTrainedTokenizerBase`."""
    context: int
    """The longest sequence a run may have, prompt and response together, in tokens."""
    stop_ids: tuple[int, ...]
    """Token ids that end a response, from the model's generation settings and tokenizer."""
    budget: Budget
    """What it takes on at once; it shrinks where memory runs out."""
    ranks: Any
    """This process among those of a launch: `Alone` or a `Communicator`. All ranks call each verb
    at once; rank 0 writes."""

    def describe(self) -> dict[str, Any]:
        """Return engine, device, dtype, parameters and versions, for environment.json."""
        ...

    def check_tokens(self, *rows: Sequence[int] | IntArray) -> None:
        """Raise UserError where a token id is none of the model's. Every verb that reads tokens
        calls it."""
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
        """Sample `group` responses a prompt, with the wanted statistics: names of those that are
        taken while decoding (`ictcli.algorithm.quantities.STATISTICS`).

        Row r draws its token t with uniform number (r, t) of `seed`, so results do not depend on
        how rows are batched, up to the rounding of the logits. `on_tokens` gets tokens as they are
        drawn, t rising from 0 for each row, and once more from 0 where memory ran out; what it
        raises ends the sampling. NotFiniteError where the model gives no probabilities."""
        ...

    def score(
        self,
        rollouts: Rollouts,
        wanted: Sequence[str],
        temperature: float = 1.0,
        *,
        reference: bool = False,
    ) -> dict[str, FloatArray]:
        """Return any statistics of given rollouts, by name, (B, T) float32 and 0 after ends; and
        `logp`, the log-probabilities of the tokens at `temperature`.

        `reference` evaluates the weights the run began with (needs `keep_reference`).
        """
        ...

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        """Return (N, V) float32 logits at the N True places of `where` (B, T), row-major."""
        ...

    def compute_in_float32(self) -> None:
        """Evaluate in float32 from now on, with the weights as they are."""
        ...

    def keep_reference(self) -> None:
        """Take the current weights as the reference policy; with adapters, the model without
        them."""
        ...

    def update(self, update: Update, lr: float) -> UpdateReport:
        """Take an optimiser step on the loss -sum w * Psi (`ictcli.algorithm.objective`). A loss
        or gradient that is not finite leaves weights and optimiser as they were."""
        ...

    def reset_optimizer(self) -> None:
        """Forget the optimiser's moments and steps, as if the model had just been loaded."""
        ...

    def save(self, folder: Path) -> None:
        """Write what is trained and the optimiser state as safetensors into an existing folder."""
        ...

    def restore(self, folder: Path) -> None:
        """Read back what `save` wrote, to the bit; without an optimiser the policy alone. On rank
        0 alone; then all `align`."""
        ...

    def align(self) -> None:
        """Take rank 0's weights and optimiser state, to the bit."""
        ...

    def export(self, folder: Path) -> None:
        """Write the model and tokenizer in Hugging Face layout into an existing folder, adapters
        fused into it and quantised weights unpacked.
        Mixtures of experts keep the names that mlx-lm gives their weights, with the MLX engine."""
        ...

    def export_adapter(self, folder: Path) -> None:
        """Write the adapters alone into an existing folder, in their library's own layout."""
        ...

    def peak_memory(self) -> int:
        """Return the highest memory use in bytes: of the device if it counts it, else RSS."""
        ...
