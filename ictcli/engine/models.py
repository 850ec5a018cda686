"""Finding and checking the files of a model: a folder, a hub id, or a built-in model."""

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError, safe_open

from ictcli.engine import remote
from ictcli.engine.hub import answers, silence
from ictcli.engine.model_files import CONFIGS, TOKENIZER, has_tokenizer, listed
from ictcli.errors import UserError, nearest, text_of
from ictcli.files import check_base, check_inside
from ictcli.files.reading import check_file, parse_json, read_text
from ictcli.recipe.files import is_of_run
from ictcli.text import command, shell_word

_TASKS = Path(__file__).parents[1] / "tasks"
BUILTIN = {name: _TASKS / name / "model" for name in ("chain", "ledger")}
HUB_ID = re.compile(r"(?!.*(--|\.\.|\.git$))(\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII)
EXPORTS = ("model", "adapter")
"""Subfolders of a finished run that hold the trained model or adapters."""
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS, PEFT_WEIGHTS = "adapters.safetensors", "adapter_model.safetensors"
"""Files with the weights of adapters, in mlx-lm's layout and in peft's (`engine.adapters`)."""

END_TOKENS = frozenset((
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|end_of_text|>",
    "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "<end_of_turn>", "<eos>", "<|end|>", "<|return|>",
    "<|eos|>", "</s>",
))  # fmt: skip
"""Special tokens that end a turn or a text in common chat models."""


@dataclass(frozen=True)
class Source:
    """Where a model's weights are."""

    path: str
    """A checked folder, or a hub id."""
    adapter: Path | None = None
    """A folder of adapters to add to the model, in mlx-lm's layout or peft's."""
    named: str = ""
    """The name that the user typed, which lets the model's code run; "" inside a run's folder."""


def typed_path(name: str) -> Path:
    """Return a path with `~` expanded to the user's home, as a shell does."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (pathlib's version may raise)


def exported(run: Path, *, whole: bool = False) -> Path | None:
    """Return the folder of a run's trained adapters, else the folder of its model; None if it has
    neither yet. `whole` prefers the model, in which merged adapters may have been rounded."""
    names = EXPORTS if whole else reversed(EXPORTS)
    return next((run / name for name in names if (run / name).is_dir()), None)


def locate(model: str, *, trains: bool = False) -> Source:
    """Return the checked folders of `builtin:NAME`, a run, a model or adapters, or the hub id.

    Raises UserError if a folder has no config, no tokenizer or no intact safetensors weights, or if
    it holds adapters and the model is to be trained (`trains`). Pickled weights (.bin, .pt) are
    never read: they can run code."""
    if model.startswith("builtin:"):
        name = model.removeprefix("builtin:")
        if name not in BUILTIN:
            raise UserError(
                f"There is no built-in model {name!r}{nearest(name, sorted(BUILTIN))}.",
                "the built-in models are: " + ", ".join(f"builtin:{n}" for n in BUILTIN),
            )
        return Source(str(BUILTIN[name]))
    folder = typed_path(model)
    if not folder.is_dir():
        if folder.exists() or not HUB_ID.fullmatch(model):
            raise UserError(f"There is no model folder {model}.", "give a folder or a hub id")
        return Source(model, named=model)
    run = folder.parent if folder.name in EXPORTS else folder
    above = (folder.resolve(), *folder.resolve().parents)
    named = "" if any(is_of_run(place / "recipe.toml") for place in above) else model
    if (run / "recipe.toml").is_file():
        check_inside(run)
        named = ""
    if (folder / "recipe.toml").is_file():
        if (trained := exported(folder, whole=trains)) is None:
            raise UserError(f"The run {model} has no finished model yet.", command("resume", model))
        folder = trained
    for path in (*folder.iterdir(), *folder.glob("*/*.jinja")):
        if path.exists() and not path.is_dir():
            check_file(path)  # reading a named pipe would block the libraries
    if (folder / ADAPTER_CONFIG).is_file():
        if trains:
            raise UserError(
                f"{folder} holds adapters, but training needs a whole model.",
                f"ictcli export {shell_word(run)} --merge; then train with model={shell_word(run)}",
            )
        return _with_adapter(folder, run, named)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not a model: it has no config.json.", "give a Hugging Face model folder"
        )
    for path in folder.glob("*config.json"):
        _read_object(path)
    _check_weights(folder)
    if not has_tokenizer(folder):
        raise UserError(
            f"{folder} has no tokenizer: no tokenizer.json, tokenizer.model, vocab.json or the "
            "like.",
            "copy the tokenizer's files there",
        )
    if trains:
        listed(folder, (*CONFIGS, *TOKENIZER))  # raises if they could not be exported later
    return Source(str(folder), named=named)


def _with_adapter(folder: Path, run: Path, named: str) -> Source:
    config = _read_object(folder / ADAPTER_CONFIG)
    key = "base_model_name_or_path" if "peft_type" in config else "model"
    base = config.get(key)
    if not isinstance(base, str):
        raise UserError(
            f"{folder / ADAPTER_CONFIG} does not say which model its adapters belong to.",
            f'add "{key}": a folder or hub id',
        )
    _check_weights(folder)
    if (Path(base) / ADAPTER_CONFIG).is_file():
        raise UserError(
            f"{folder} holds adapters for {base}, which holds adapters too.",
            "ictcli export RUN --merge writes a whole model from a run with adapters",
        )
    if not named:
        check_base(run, base)
    return Source(locate(base).path, folder, named)


@contextmanager
def loading(source: Source, other: str) -> Generator[None]:
    """Context for loading a model, whose own code must pass `ictcli.files.gate`. Errors become
    UserErrors, with a hint to use the `other` engine if this one does not know the model type."""
    model = source.path
    try:
        with remote.asking(model, source.named):
            yield
    except UserError:
        raise
    except Exception as error:  # libraries raise anything on a damaged folder
        hint = "check the path or hub id"
        if isinstance(error, TypeError | KeyError) or "not supported" in str(error):
            hint = f"this engine may not support this model type; try --backend {other}"
        if "trust_remote_code" in str(error):
            hint = "if you trust the model's own code, set engine.trust_remote_code=true to run it"
        raise UserError(f"The model {model} cannot be loaded: {text_of(error)}.", hint) from error


def stop_ids(tokenizer: Any, *configured: int | Iterable[int] | None) -> tuple[int, ...]:
    """Return the ids of tokens that end a response: those in the model's settings (`configured`),
    the tokenizer's end token, and its special tokens that end a turn or a text (END_TOKENS).

    The settings of a base model with a chat template name only the end of a text: after its turn,
    the model would continue with another question."""
    ids: set[int] = set()
    for stop in (*configured, tokenizer.eos_token_id):
        if stop is not None:
            listed = cast(list[Any], stop if isinstance(stop, list | tuple) else [stop])
            if not all(type(i) is int and 0 <= i < 2**31 for i in listed):
                raise UserError(f"The model's eos_token_id is {stop!r}.", "fetch the model again")
            ids.update(listed)
    added: dict[int, Any] = dict(getattr(tokenizer, "added_tokens_decoder", None) or {})
    ends = {str(t): i for i, t in added.items() if t.special and str(t) in END_TOKENS}
    if "<|return|>" in ends:
        ends.pop("<|end|>", None)  # in these models it ends a message before the answer
    return tuple(sorted(ids | set(ends.values())))


def check_reachable(model: str) -> None:
    """Raise UserError if a hub id is not in the cache, and the hub does not answer."""
    if Path(model).is_dir() or answers():
        return
    folder = snapshot(model)
    files = weight_files(folder) if folder else []
    if files and all(file.is_file() for file in files):  # settings and weights are in the cache
        return
    where = "not in the cache" if "/" in model else "neither a folder here nor in the cache"
    raise UserError(
        f"The model {model} is {where}, and {silence()}.",
        f"with a network: hf download {shell_word(model)}; or give a folder with the model",
    )


def weight_files(folder: Path) -> list[Path]:
    """Return a model's weights files: those that its index names, of which some may be missing, or
    model.safetensors, or all *.safetensors."""
    index, whole = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        names = sorted({str(name) for name in _read_object(index).get("weight_map", {}).values()})
        for name in names:
            if not name.endswith(".safetensors") or Path(name).name != name:
                raise UserError(
                    f"{index} names {name!r}, which is not a safetensors file in that folder.",
                    "fetch or export the model again",
                )
        return [folder / name for name in names]
    return [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))


def with_dtype(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Return the settings of a config.json with `dtype` wherever they name the weights' dtype."""
    tables = ((key, cast(Any, part)) for key, part in config.items() if isinstance(part, dict))
    typed = {key: with_dtype(part, dtype) for key, part in tables if "dtype" in part}
    older = {"torch_dtype": dtype} if "torch_dtype" in config else {}
    return config | typed | older | {"dtype": dtype}


def snapshot(path: str) -> Path | None:
    """Return a model's folder; for a hub id its folder in the cache, or None if not cached."""
    if Path(path).is_dir():
        return Path(path)
    from huggingface_hub import try_to_load_from_cache

    file = try_to_load_from_cache(path, "config.json")
    return Path(file).parent if isinstance(file, str) else None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}.", "fetch it again") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} is not a JSON object.", "fetch it again")
    return cast(dict[str, Any], data)


def _check_weights(folder: Path) -> None:
    if not any(folder.glob("*.safetensors")):
        pickled = [p.name for pattern in ("*.bin", "*.pt", "*.pth") for p in folder.glob(pattern)]
        if pickled:
            raise UserError(
                f"{folder} has only pickled weights ({pickled[0]}), which ictcli never reads.",
                "convert them to safetensors with code that you trust",
            )
        raise UserError(
            f"{folder} has no weights: no *.safetensors file.", "copy model.safetensors there"
        )
    weight_files(folder)  # raises if the index names other files
    for file in folder.glob("*.safetensors"):
        try:
            with cast(Any, safe_open)(file, "np"):
                pass  # opening compares the header with the file's length
        except SafetensorError as error:
            raise UserError(
                f"{file} is damaged or cut short: {error}.", "fetch or export it again"
            ) from error
