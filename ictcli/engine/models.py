"""Where a model's files are: a folder, a hub id, or one that ships with ictcli."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from safetensors import SafetensorError, safe_open

from ictcli.errors import UserError, nearest

BUILTIN = {"chain": Path(__file__).parents[1] / "tasks" / "chain" / "model"}
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS, PEFT_WEIGHTS = "adapters.safetensors", "adapter_model.safetensors"
"""Adapters in mlx-lm's layout, and in peft's (`ictcli.engine.adapters`)."""

END_TOKENS = frozenset(
    (
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|eot|>",
        "<|end_of_text|>",
        "<|end_of_turn|>",
        "<|END_OF_TURN_TOKEN|>",
        "<end_of_turn>",
        "<eos>",
        "<|end|>",
        "<|return|>",
        "<|eos|>",
        "</s>",
    )
)
"""Special tokens at which a turn or a text ends, of the chat models there are."""


@dataclass(frozen=True)
class Source:
    """Where a model's weights are."""

    path: str
    """A checked folder, or a hub id."""
    adapter: Path | None = None
    """A folder of adapters, in mlx-lm's layout or peft's, that go on top."""


def locate(model: str, *, trains: bool = False) -> Source:
    """Turn `builtin:NAME`, a run, model or adapter folder into checked paths; hub ids pass.

    Raises UserError for a folder that has no config, tokenizer or whole safetensors weights, and
    for adapters where the model is one to train (`trains`).
    Pickled weights (.bin, .pt) are never read: they can run code.
    """
    if model.startswith("builtin:"):
        name = model.removeprefix("builtin:")
        if name not in BUILTIN:
            raise UserError(
                f"There is no built-in model {name!r}{nearest(name, sorted(BUILTIN))}.",
                "the built-in models are: " + ", ".join(f"builtin:{n}" for n in BUILTIN),
            )
        return Source(str(BUILTIN[name]))
    folder = Path(model).expanduser()
    if not folder.is_dir():
        if folder.exists() or model.startswith((".", "/", "~")) or model.count("/") > 1:
            raise UserError(f"There is no model folder {model}.", "give a folder or a hub id")
        return Source(model)
    if (folder / "recipe.toml").is_file():
        made = [folder / name for name in ("model", "adapter") if (folder / name).is_dir()]
        if not made:
            raise UserError(f"The run {model} has no finished model yet.", f"ictcli resume {model}")
        folder = made[0]
    if (folder / ADAPTER_CONFIG).is_file():
        if trains:
            raise UserError(
                f"{folder} holds adapters, and training begins with a model.",
                "ictcli export RUN --merge makes a whole model of a run",
            )
        return _with_adapter(folder)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not a model: it has no config.json.", "give a Hugging Face model folder"
        )
    _read_object(folder / "config.json")
    _check_weights(folder)
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise UserError(
            f"{folder} has no tokenizer: none of {', '.join(TOKENIZERS)}.",
            "copy the tokenizer's files there",
        )
    return Source(str(folder))


def _with_adapter(folder: Path) -> Source:
    """Adapters and the model they were trained on, which their settings name."""
    about = _read_object(folder / ADAPTER_CONFIG)
    key = "base_model_name_or_path" if "peft_type" in about else "model"
    base = about.get(key)
    if not isinstance(base, str):
        raise UserError(
            f"{folder / ADAPTER_CONFIG} does not say which model its adapters belong to.",
            f'add "{key}": a folder or hub id',
        )
    _check_weights(folder)
    if (Path(base) / ADAPTER_CONFIG).is_file():
        raise UserError(
            f"{folder} holds adapters of a model that is adapters itself, {base}.",
            "ictcli export RUN --merge makes a whole model of a run",
        )
    return Source(locate(base).path, folder)


@contextmanager
def loading(model: str, other: str) -> Generator[None]:
    """Around what loads a model: whatever it raises becomes a UserError, whose hint names the
    `other` engine where the model is of an unknown kind."""
    try:
        yield
    except Exception as error:  # whatever a broken folder makes the library raise
        reason = " ".join((str(error).strip() or type(error).__name__).split())[:300].rstrip(".!")
        hint = "check the path or hub id; a hub id needs the network or a filled cache"
        if isinstance(error, TypeError | KeyError) or "not supported" in str(error):
            hint = f"this engine may not know this kind of model; --backend {other} may"
        if "trust_remote_code" in str(error):
            hint = "engine.trust_remote_code=true runs the model's own code, if you trust it"
        raise UserError(f"The model {model} cannot be loaded: {reason}.", hint) from error


def stop_ids(tokenizer: Any, *configured: int | Iterable[int] | None) -> tuple[int, ...]:
    """Ids that end a response: those of the model's settings and its tokenizer's end token, and the
    special tokens of the tokenizer that end a turn or a text.

    A base model under a chat template names only its end of text, and behind a turn would go on
    with a question of its own.
    """
    ids: set[int] = set()
    for given in (*configured, tokenizer.eos_token_id):
        if given is not None:
            ids.update([given] if isinstance(given, int) else given)
    added: dict[int, Any] = dict(getattr(tokenizer, "added_tokens_decoder", None) or {})
    ends = {str(t): i for i, t in added.items() if t.special and str(t) in END_TOKENS}
    if "<|return|>" in ends:
        ends.pop("<|end|>", None)  # there it ends a message, and the answer's is yet to come
    return tuple(sorted(ids | set(ends.values())))


def fingerprint(source: Source) -> str:
    """A checksum of a model's files, and of its adapters', the same wherever they lie: small ones
    whole, of weights the header and blocks all over them, so that it takes no time."""
    found = hashlib.sha256()
    folders = [snapshot(source.path), source.adapter]
    for folder in folders:
        if folder is None:
            found.update(source.path.encode())
            continue
        for file in sorted(folder.iterdir()):
            if file.suffix in FINGERPRINTED and file.name not in UNREAD and file.is_file():
                found.update(f"{file.name} {file.stat().st_size}\n".encode())
                with file.open("rb") as opened:
                    _update(found, opened, 0, file.stat().st_size, BLOCKS)
    return found.hexdigest()


FINGERPRINTED = (".safetensors", ".json", ".jinja", ".model", ".txt", ".py")
UNREAD = ("training_args.json", "trainer_state.json", "LICENSE.txt", "requirements.txt")
BLOCK, BLOCKS = 1 << 16, 1024


def _update(found: Any, opened: BinaryIO, start: int, size: int, blocks: int) -> None:
    """`size` bytes of a file from `start`; of more than so many blocks that many, at even
    distances, both ends included, or one of the middle."""
    if size <= BLOCK * blocks:
        opened.seek(start)
        found.update(opened.read(size))
        return
    for number in range(blocks):
        part, parts = (number, blocks - 1) if blocks > 1 else (1, 2)
        opened.seek(start + (size - BLOCK) * part // parts)
        found.update(opened.read(BLOCK))


def snapshot(path: str) -> Path | None:
    """The folder of a model's files; of a hub id the one in the cache, if it is there."""
    if Path(path).is_dir():
        return Path(path)
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(path, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def identity(source: Source) -> str:
    """A checksum of what a run begins with: config.json and the weights, whatever else is put
    beside them. Empty where their folder is not known."""
    folder = snapshot(source.path)
    if folder is None:
        return ""
    found = hashlib.sha256()
    if (folder / "config.json").is_file():
        found.update((folder / "config.json").read_bytes())
    found.update(weights_fingerprint(folder).encode())
    return found.hexdigest()


def weights_fingerprint(folder: Path) -> str:
    """A checksum of a model's weights alone: every tensor's name, type and shape, and of its
    numbers all where they are few, else blocks all over them, so that it takes no time. The same
    however they are dealt to files, and whatever these say about themselves.

    Raises OSError or ValueError where a file cannot be read.
    """
    places = sorted(place for file in _weight_files(folder) for place in _tensors(file))
    total = sum(place.size for place in places)
    found = hashlib.sha256()
    for place in places:
        found.update(f"{place.name} {place.kind} {place.shape}\n".encode())
        with place.file.open("rb") as opened:
            _update(found, opened, place.start, place.size, -(-place.size * BLOCKS // (total or 1)))
    return found.hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(_read_object(index)["weight_map"].values()))
    else:
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        if "model.safetensors" in names:
            names = ["model.safetensors"]
    return [folder / name for name in names if (folder / name).is_file()]


@dataclass(frozen=True, order=True)
class _Place:
    """Where a tensor lies, in bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]
    file: Path
    start: int
    size: int


def _tensors(file: Path) -> list[_Place]:
    """Of a safetensors file: 8 bytes that say how long its header is, the header, the data."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = cast(dict[str, Any], json.loads(opened.read(length)))
    found: list[_Place] = []
    for name, about in header.items():
        if name != "__metadata__":
            first, last = cast(tuple[int, int], about["data_offsets"])
            shape, start = tuple(cast(list[int], about["shape"])), 8 + length + first
            found.append(_Place(name, str(about["dtype"]), shape, file, start, last - first))
    return found


def rope_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The rotary settings of a config.json under the names that older readers know.

    transformers 5 writes `rope_parameters` alone. mlx-lm reads `rope_theta` and `rope_scaling` of
    most models, and where they are missing takes a default without a word.
    """
    given = cast(dict[str, Any], config.get("rope_parameters") or {})
    found: dict[str, Any] = {}
    if "full_attention" in given:  # each kind of layer has its own
        found["rope_local_base_freq"] = given.get("sliding_attention", {}).get("rope_theta", 1e4)
        given = given["full_attention"]
    if "rope_theta" in config or "rope_theta" not in given:
        return {}
    found["rope_theta"] = given["rope_theta"]
    if "partial_rotary_factor" in given and "partial_rotary_factor" not in config:
        found["partial_rotary_factor"] = given["partial_rotary_factor"]
    if given.get("rope_type", "default") != "default":
        found["rope_scaling"] = given
    return found


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}.", "fetch it again") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object.", "fetch it again")
    return cast(dict[str, Any], found)


def _check_weights(folder: Path) -> None:
    """That there are safetensors, and whole ones."""
    if not any(folder.glob("*.safetensors")):
        pickled = [p.name for pattern in ("*.bin", "*.pt", "*.pth") for p in folder.glob(pattern)]
        if pickled:
            raise UserError(
                f"{folder} has only pickled weights ({pickled[0]}), which ictcli never reads.",
                "convert them to safetensors with the code you trust that wrote them",
            )
        raise UserError(
            f"{folder} has no weights: no *.safetensors file.", "copy model.safetensors there"
        )
    for file in folder.glob("*.safetensors"):
        try:
            with cast(Any, safe_open)(file, "np"):
                pass  # the header is read, and the file's length held against it
        except SafetensorError as error:
            raise UserError(
                f"{file} is damaged or cut short: {error}.", "fetch or export it again"
            ) from error
