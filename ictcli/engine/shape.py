"""The size of a model by its config.json, without loading its weights, and how long a sequence may
be.

The formulas are those of a decoder like Qwen2. Most others have the same keys and about the same
matrices; for them the result is an estimate.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ictcli.engine.checksums import stored_tensors
from ictcli.engine.models import check_reachable, locate, snapshot, weight_files
from ictcli.errors import UserError, text_of
from ictcli.files.reading import parse_json, read_text

LARGEST = 1 << 40
"""Of the sizes of a model."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model."""

    kind: str
    """`model_type`: the formulas are exact for qwen2."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    """The longest sequence, unless engine.context is set (`read_lengths`)."""
    tied: bool
    bits: int = 0
    """Bits of a quantised weight; 0 = not quantised."""
    group_size: int = 64
    """Quantised weights that share a scale and an offset."""
    dtype: str = ""
    """Of the stored weights; empty = not said."""
    windowed: bool = False
    """Whether a block looks back at a window only, or is no attention."""
    capped: bool = False
    """Whether the scores of attention are soft-capped."""
    longest: int = 0
    """What engine.context can raise the context to."""
    stored: tuple[int, int, int] | None = None
    """Bytes of packed weights, numbers that are not packed, and parameters, by the headers of the
    model's files; None where these are not on this machine."""

    def __post_init__(self) -> None:
        sizes = (self.layers, self.hidden, self.heads, self.kv_heads, self.head_dim)
        sizes += (self.intermediate, self.vocabulary, self.context, self.group_size)
        if not all(0 < size < LARGEST for size in sizes) or not 0 <= self.bits < 64:
            raise ValueError("a size in it is that of no model")

    @property
    def queries(self) -> int:
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of a block."""
        h, wide = self.hidden, self.intermediate
        return {
            "self_attn.q_proj": (h, self.queries),
            "self_attn.k_proj": (h, self.keys),
            "self_attn.v_proj": (h, self.keys),
            "self_attn.o_proj": (self.queries, h),
            "mlp.gate_proj": (h, wide),
            "mlp.up_proj": (h, wide),
            "mlp.down_proj": (wide, h),
        }

    @property
    def block(self) -> int:
        """Numbers in the matrices of a block."""
        return sum(a * b for a, b in self.linears.values())

    @property
    def embedding(self) -> int:
        """Numbers of the embedding; an untied LM head has as many."""
        return self.vocabulary * self.hidden

    @property
    def embeddings(self) -> int:
        return self.embedding * (1 if self.tied else 2)

    @property
    def vectors(self) -> int:
        """Numbers that are never quantised: norms and the biases of q, k and v."""
        biases = self.queries + 2 * self.keys if self.kind == "qwen2" else 0
        return self.layers * (2 * self.hidden + biases) + self.hidden

    @property
    def parameters(self) -> int:
        if self.stored:
            return self.stored[2]
        return self.layers * self.block + self.embeddings + self.vectors

    def weights(self, width: int) -> int:
        """Bytes in memory; a number that is not packed, such as a scale or an offset, takes
        `width`."""
        if self.stored:
            return self.stored[0] + self.stored[1] * width
        matrices = self.layers * self.block + self.embeddings
        if not self.bits:
            return (matrices + self.vectors) * width
        scales = 2 * matrices // self.group_size
        return matrices * self.bits // 8 + (scales + self.vectors) * width

    def packed(self, bits: int) -> "ModelShape":
        """The same model, quantised."""
        return replace(self, bits=bits, group_size=64, stored=None)


QWEN2 = {
    "qwen2.5-0.5b": ModelShape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32768, tied=True),
    "qwen2.5-1.5b": ModelShape("qwen2", 28, 1536, 12, 2, 128, 8960, 151_936, 32768, tied=True),
    "qwen2.5-7b": ModelShape("qwen2", 28, 3584, 28, 4, 128, 18944, 152_064, 32768, tied=False),
}
"""The models of the recipes, by what their names hold."""
OF_RECIPES = r"(?:qwen|mlx-community)/(?P<name>qwen2\.5-[\d.]+b)(?:-instruct)?(?P<packed>-4bit)?"


def read_shape(model: str) -> ModelShape:
    """The shape of a folder, `builtin:NAME` or hub id. Of a hub id only config.json is fetched,
    unless it is in the cache, or one of the recipes' models, whose sizes ship. Raises UserError
    where it is missing or not like Qwen2's."""
    folder = snapshot(locate(model).path)
    shipped = None if folder else _shipped(model)
    return shipped or _read(folder or _from_hub(model))


def _shipped(model: str) -> ModelShape | None:
    known = re.fullmatch(OF_RECIPES, model.lower())
    if known is None or known["name"] not in QWEN2:
        return None
    shape = QWEN2[known["name"]]
    shape = replace(shape, dtype="bfloat16", longest=shape.context)
    return shape.packed(4) if known["packed"] else shape


def _read(folder: Path) -> ModelShape:
    hint = "it is the config.json of a model that is written for transformers"
    try:
        config = parse_json(read_text(folder / "config.json"))
        shape = _shape(config | config.get("text_config", {}))
        return replace(shape, stored=_stored(folder, shape.group_size))
    except KeyError as error:
        raise UserError(f"{folder / 'config.json'} has no {error}.", hint) from error
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{folder / 'config.json'} cannot be read: {error}.", hint) from error


def _from_hub(model: str) -> Path:
    import huggingface_hub

    check_reachable(model)
    try:
        return Path(str(cast(Any, huggingface_hub).hf_hub_download(model, "config.json"))).parent
    except Exception as error:  # no such model, no access
        raise UserError(
            f"The config.json of {model} cannot be fetched: {text_of(error)}.",
            f"look at https://huggingface.co/{model}",
        ) from error


def _shape(config: dict[str, Any]) -> "ModelShape":
    heads = int(config["num_attention_heads"])
    lengths = read_lengths(config, 0)
    packed: dict[str, Any] = config.get("quantization") or config.get("quantization_config") or {}
    return ModelShape(
        kind=str(config.get("model_type", "")),
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
        intermediate=int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        context=lengths.context,
        tied=bool(config.get("tie_word_embeddings", True)),
        bits=int(packed.get("bits", 0)),
        group_size=int(packed.get("group_size") or 64),
        dtype=str(config.get("dtype") or config.get("torch_dtype") or ""),
        windowed=_windowed(config),
        capped=bool(config.get("attn_logit_softcapping")),
        longest=lengths.longest,
    )


def _windowed(config: dict[str, Any]) -> bool:
    kinds = config.get("layer_types")
    if kinds is not None:
        return any(kind != "full_attention" for kind in kinds)
    return bool(config.get("sliding_window")) and config.get("use_sliding_window", True)


def _stored(folder: Path, group_size: int) -> tuple[int, int, int] | None:
    files = weight_files(folder)
    if not files or not all(file.is_file() for file in files):
        return None
    packed = plain = parameters = 0
    for name, kind, shape, *_ in (tensor for path in files for tensor in stored_tensors(path)):
        count = math.prod(shape)
        if kind == "U32":  # several weights in each
            packed += 4 * count
            continue
        plain += count
        if not name.endswith(".biases"):  # the offsets of quantised weights
            parameters += count * (group_size if name.endswith(".scales") else 1)
    return packed, plain, parameters


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
    check_context(wanted, longest)
    ropes = list(rope_settings(config))
    long = [rope for rope in ropes if (rope.get("rope_type") or rope.get("type")) in LONG]
    originals = [config.get(ORIGINAL) or rope.get(ORIGINAL) for rope in long]
    context = min([longest, *filter(None, originals)])
    return Lengths(wanted or context, longest, tuple(sorted(set(_changes(config)))))


def check_context(wanted: int, longest: int) -> None:
    """UserError where `engine.context` is longer than a model takes."""
    if wanted > longest:
        raise UserError(
            f"engine.context = {wanted:,} exceeds the {longest:,} tokens that this engine takes of "
            "the model.",
            f"engine.context={longest}, or less",
        )


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
