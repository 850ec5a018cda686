"""Where a model's files are: a folder, a hub id, or one that ships with ictcli."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError, safe_open

from ictcli.errors import UserError, nearest

BUILTIN = {"chain": Path(__file__).parent / "tasks" / "chain" / "model"}
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def locate(model: str) -> str:
    """Turn `builtin:NAME`, a run folder or a model folder into a checked path; hub ids pass.

    Raises UserError for a folder that has no config, tokenizer or whole safetensors weights.
    Pickled weights (.bin, .pt) are never read: they can run code.
    """
    if model.startswith("builtin:"):
        name = model.removeprefix("builtin:")
        if name not in BUILTIN:
            raise UserError(
                f"There is no built-in model {name!r}{nearest(name, sorted(BUILTIN))}.",
                "the built-in models are: " + ", ".join(f"builtin:{n}" for n in BUILTIN),
            )
        return str(BUILTIN[name])
    folder = Path(model).expanduser()
    if not folder.is_dir():
        if folder.exists() or model.startswith((".", "/", "~")) or model.count("/") > 1:
            raise UserError(f"There is no model folder {model}.", "give a folder or a hub id")
        return model
    if (folder / "recipe.toml").is_file():
        folder = folder / "model"
        if not folder.is_dir():
            raise UserError(f"The run {model} has no finished model yet.", f"ictcli resume {model}")
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not a model: it has no config.json.", "give a Hugging Face model folder"
        )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{folder}/config.json is not JSON: {error}.", "fetch it again") from error
    if not isinstance(config, dict):
        raise UserError(f"{folder}/config.json is no JSON object.", "fetch it again")
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
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise UserError(
            f"{folder} has no tokenizer: none of {', '.join(TOKENIZERS)}.",
            "copy the tokenizer's files there",
        )
    return str(folder)
