"""The sizes and the longest context of a model, from its config.json, without loading its weights.

The formulas are those of a decoder like Qwen2; for other models the result is an estimate."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ictcli.engine.checksums import stored_tensors
from ictcli.engine.models import check_reachable, locate, snapshot, weight_files
from ictcli.errors import UserError, text_of
from ictcli.files.reading import parse_json, read_text

LARGEST = 1 << 40
"""Upper limit of each size, to reject a damaged config.json."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model."""

    kind: str
    """The `model_type` in config.json."""
    layers: int
    hidden: int
    heads: int
    queries: int
    """Width of a token's queries, all heads together."""
    keys: int
    """Width of a token's keys, all heads together; its values have the same width."""
    intermediate: int
    vocabulary: int
    context: int
    """Maximum number of tokens of a prompt and its response together (`read_context`)."""
    tied: bool
    bits: int = 0
    """Bits of a quantised weight; 0 = not quantised."""
    dtype: str = ""
    """Dtype of the stored weights; empty = not in config.json."""
    windowed: bool = False
    """Whether any block has sliding-window attention, or no attention."""
    capped: bool = False
    """Whether attention scores are soft-capped."""
    stored: tuple[int, int, int] | None = None
    """Bytes of quantised weights, number of other weights, and number of parameters, from the
    headers of the weights files; None if these are not on this machine."""

    def __post_init__(self) -> None:
        sizes = (self.layers, self.hidden, self.heads, self.queries, self.keys)
        sizes += (self.intermediate, self.vocabulary, self.context)
        if not all(0 < size < LARGEST for size in sizes) or not 0 <= self.bits < 64:
            raise ValueError("a size in it is out of range")

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
        """Number of parameters in the matrices of a block."""
        return sum(a * b for a, b in self.linears.values())

    @property
    def embedding(self) -> int:
        """Number of parameters of the embedding; an untied LM head has as many."""
        return self.vocabulary * self.hidden

    @property
    def embeddings(self) -> int:
        return self.embedding * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Number of parameters; without the weights files, of the matrices only."""
        return self.stored[2] if self.stored else self.layers * self.block + self.embeddings

    def weights(self, width: int) -> float:
        """Return the bytes of the weights in memory, with `width` bytes per unquantised weight."""
        if self.stored:
            return self.stored[0] + self.stored[1] * width
        scales = width / 32  # per weight: a scale and an offset for every 64
        return self.parameters * (self.bits / 8 + scales if self.bits else width)


def read_shape(model: str) -> ModelShape:
    """Return the shape of a model: a folder, `builtin:NAME` or hub id. For a hub id that is not in
    the cache, config.json is downloaded. Raises UserError if the file or a size is missing."""
    folder = snapshot(locate(model).path) or _from_hub(model)
    hint = "ictcli needs the config.json of a model in the format of transformers"
    try:
        config = parse_json(read_text(folder / "config.json"))
        shape = _shape(config | config.get("text_config", {}))
        return replace(shape, stored=_stored(folder, shape.bits))
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
            f"check https://huggingface.co/{model}",
        ) from error


def _shape(config: dict[str, Any]) -> ModelShape:
    heads = int(config["num_attention_heads"])
    head = int(config.get("head_dim") or config["hidden_size"] // heads)
    packed: dict[str, Any] = config.get("quantization") or config.get("quantization_config") or {}
    windowed = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
    if kinds := config.get("layer_types"):
        windowed = any(kind != "full_attention" for kind in kinds)
    return ModelShape(
        kind=str(config.get("model_type", "")),
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        heads=heads,
        queries=heads * head,
        keys=int(config.get("num_key_value_heads") or heads) * head,
        intermediate=int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        context=read_context(config, 0),
        tied=bool(config.get("tie_word_embeddings", True)),
        bits=int(packed.get("bits", 0)),
        dtype=str(config.get("dtype") or config.get("torch_dtype") or ""),
        windowed=windowed,
        capped=bool(config.get("attn_logit_softcapping")),
    )


def _stored(folder: Path, bits: int) -> tuple[int, int, int] | None:
    files = weight_files(folder)
    if not files or not all(file.is_file() for file in files):
        return None
    packed = plain = parameters = 0
    for name, kind, shape, *_ in (tensor for path in files for tensor in stored_tensors(path)):
        count = math.prod(shape)
        if kind == "U32":  # several quantised weights in one number
            packed += 4 * count
            parameters += count * 32 // (bits or 4)
            continue
        plain += count
        if not name.endswith((".scales", ".biases")):  # those of quantised weights
            parameters += count
    return packed, plain, parameters


ORIGINAL, LONG = "original_max_position_embeddings", ("longrope", "su")


def read_context(config: dict[str, Any], wanted: int) -> int:
    """Return the maximum number of tokens of a prompt and its response together, from the model's
    settings and `engine.context` (`wanted`, 0 = not set).

    LongRoPE has one set of rotary frequencies for sequences up to an original length and another
    for longer ones; ictcli allows only the former. Raises UserError if `wanted` is too long."""
    positions = config.get("max_position_embeddings") or config.get("n_positions") or 1 << 30
    long = [r for r in rope_settings(config) if (r.get("rope_type") or r.get("type")) in LONG]
    originals = [config.get(ORIGINAL) or rope.get(ORIGINAL) for rope in long]
    return choose_context(wanted, min([int(positions), *filter(None, originals)]))


def choose_context(wanted: int, longest: int) -> int:
    """Return `wanted` or, if it is 0, `longest`. UserError if `wanted` exceeds `longest`."""
    if wanted > longest:
        raise UserError(
            f"engine.context = {wanted:,} exceeds the {longest:,} tokens that this engine supports "
            "for the model.",
            f"engine.context={longest}, or less",
        )
    return wanted or longest


def rope_settings(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rotary settings, then the settings of each kind of layer, if separate."""
    rope = cast(dict[str, Any], config.get("rope_parameters") or config.get("rope_scaling") or {})
    yield rope
    yield from (kind for kind in rope.values() if isinstance(kind, dict))
