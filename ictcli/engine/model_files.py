"""The files of a model's folder that ictcli downloads, exports and uploads, and copying them."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files.reading import MIB, check_file, parse_json, read_text

ASKED = "ictcli.json"
"""File in an exported model with the prompt format and sampling settings of its run."""
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "spm.model",
    "sentencepiece.model", "sentencepiece.bpe.model", "tekken.json", "*.tiktoken",
)  # fmt: skip
"""Files of a tokenizer, which has at least one of them."""
TOKENIZER = (
    *VOCABULARIES, "merges.txt", "added_tokens.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja", "chat_template.json",
    "additional_chat_templates/*.jinja",
)  # fmt: skip
WEIGHTS = "*.safetensors"
GENERATION = "generation_config.json"
CONFIGS = (
    "*.safetensors.index.json", "config.json", GENERATION, "adapter_config.json",
    "processor_config.json", "preprocessor_config.json",
)  # fmt: skip
TEXTS = tuple(
    name + ending
    for name in ("README", "LICENSE", "LICENCE", "NOTICE", "USE_POLICY")
    for ending in ("", ".md", ".txt")
)
FILES = (WEIGHTS, *CONFIGS, *TOKENIZER, *TEXTS, ASKED)
"""Names and patterns of the files that ictcli downloads or exports. Others are left out, such as
code, pickled weights and hidden files."""
ELSEWHERE = tuple(f"*/{name}" for name in FILES if "*" in name)
"""Patterns to exclude files in subfolders, because * of the hub's client also matches slashes."""
CODE = ("auto_map", "auto_mapping", "model_file", "custom_generate", "custom_pipelines")
"""Settings that name Python code to run."""


def fetch(model: str, *, code: bool = False) -> Path:
    """Download a hub model's files in FILES and return their folder in the cache. `code`, set by
    engine.trust_remote_code, also downloads the model's Python files; none is run here."""
    import huggingface_hub

    wanted = [*FILES, "*.py"] if code else [*FILES]
    download = cast(Any, huggingface_hub).snapshot_download
    return Path(download(model, allow_patterns=wanted, ignore_patterns=[*ELSEWHERE]))


def listed(folder: Path, names: Sequence[str] = FILES) -> list[Path]:
    """Return the files in a folder that match `names`, sorted. UserError if a file is a link out of
    the folder and the hub's cache, is not a regular file, or is too large for its type."""
    root = folder.resolve()
    cache = root.parents[1] / "blobs" if root.parent.name == "snapshots" else root
    matches = {path.relative_to(folder) for name in names for path in folder.glob(name)}
    shown = [folder / path for path in matches if not any(p[0] == "." for p in path.parts)]
    files = sorted(path for path in shown if path.exists() and not path.is_dir())
    for path in files:
        target = path.resolve()
        if not (target.is_relative_to(root) or target.is_relative_to(cache)):
            raise UserError(
                f"{path} is a link that leaves {folder}, so it cannot be exported.",
                "replace the link with the file itself",
            )
        check_file(path, 256 * MIB if path.name in TEXTS else None)
    return files


def take(
    source: Path,
    folder: Path,
    names: Sequence[str] = FILES,
    by: Callable[[Path, Path], Any] = shutil.copyfile,
) -> None:
    """Copy the files that match `names` from `source` to `folder` with the function `by`."""
    for path in listed(source, names):
        place = folder / path.relative_to(source)
        place.parent.mkdir(exist_ok=True)
        by(path, place)


def write_tokenizer(tokenizer: Any, origin: Path | None, folder: Path) -> None:
    """Copy the tokenizer's files from the model's folder `origin`, since other programs cannot read
    the files that transformers 5 writes. If the tokenizer has code of its own, or its files are not
    listed in TOKENIZER, transformers writes them."""
    has_code = type(tokenizer).__module__.startswith("transformers_modules")
    if origin is None or has_code or not has_tokenizer(origin):
        tokenizer.save_pretrained(folder)
        return
    take(origin, folder, TOKENIZER)
    drop_code(folder, ["tokenizer_config.json"])


def tokenizer_config(folder: Path) -> dict[str, Any]:
    """Return the settings in tokenizer_config.json; empty if there is no such file."""
    path = folder / "tokenizer_config.json"
    return parse_json(read_text(path)) if path.is_file() else {}


def change_tokenizer(folder: Path, **settings: Any) -> None:
    """Change settings of tokenizer_config.json in place."""
    _write(folder / "tokenizer_config.json", tokenizer_config(folder) | settings)


def has_tokenizer(folder: Path) -> bool:
    return any(any(folder.glob(name)) for name in VOCABULARIES)


def drop_code(folder: Path, names: Sequence[str] = ("*config.json",)) -> bool:
    """Remove settings that name code (CODE) from these files; return whether there were any."""
    changed = False
    for path in listed(folder, names):
        settings = parse_json(read_text(path))
        if (plain := _without_code(settings)) != settings:
            _write(path, plain)
            changed = True
    return changed


def _write(path: Path, settings: Any) -> None:
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _without_code(settings: Any) -> Any:
    if not isinstance(settings, dict):
        return settings
    table = cast(dict[str, Any], settings)
    return {
        key: _without_code(value)
        for key, value in table.items()
        if key not in CODE or value is None
    }
