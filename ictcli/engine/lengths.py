"""How long a sequence may be, and the lengths at which a model's arithmetic changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from ictcli.errors import UserError

ORIGINAL, LONG = "original_max_position_embeddings", ("longrope", "su")
CHANGES = frozenset((
    "sliding_window", "attention_chunk_size", "window_size", "chunk_size", "mamba_chunk_size",
    ORIGINAL,
))  # fmt: skip
"""Settings of a model that are such lengths, in tokens."""


@dataclass(frozen=True)
class Lengths:
    """In tokens, prompt and response together."""

    context: int
    """The longest sequence that a run may have."""
    longest: int
    """What `engine.context` can raise it to."""
    changes: tuple[int, ...]
    """Windows, chunks and the like, ascending: after each, sampling and evaluating may part."""

    def hint(self, needed: int) -> str:
        """The end of a hint, where `engine.context` can make room for so many tokens."""
        return f", or engine.context={needed}" if needed <= self.longest else ""


def read_lengths(config: dict[str, Any], wanted: int, longest: int = 1 << 30) -> Lengths:
    """Of a language model's settings, `engine.context`, and the longest sequence that the engine
    computes as the model means it.

    LongRoPE has one set of rotary frequencies for sequences up to an original length and another
    for longer ones. One run has one of them, whatever is in a batch: the first, unless
    `engine.context` is longer. Raises UserError where that is longer than the model takes.
    """
    own = config.get("max_position_embeddings") or config.get("n_positions") or 1 << 30
    longest = min(int(own), longest)
    if wanted > longest:
        raise UserError(
            f"engine.context = {wanted:,} exceeds the {longest:,} tokens that this engine takes of "
            "the model.",
            f"engine.context={longest}, or less",
        )
    ropes = list(rope_settings(config))
    long = [rope for rope in ropes if (rope.get("rope_type") or rope.get("type")) in LONG]
    originals = [config.get(ORIGINAL) or rope.get(ORIGINAL) for rope in long]
    context = min([longest, *filter(None, originals)])
    return Lengths(wanted or context, longest, tuple(sorted(set(_changes(config)))))


def rope_settings(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rotary settings in the spelling of any version of transformers, of each kind of layer."""
    rope = cast(dict[str, Any], config.get("rope_parameters") or config.get("rope_scaling") or {})
    yield rope
    yield from (kind for kind in rope.values() if isinstance(kind, dict))


def _changes(config: dict[str, Any]) -> Iterator[int]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _changes(cast(dict[str, Any], value))
        elif name in CHANGES and isinstance(value, int) and value > 0:
            yield value
