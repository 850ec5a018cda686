"""The one list of files that a model's folder may hold: what is downloaded, exported and pushed."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files.reading import MIB, check_file, parse_json, read_text

ASKED = "ictcli.json"
"""A file of an exported model: how its run asked and sampled."""
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "spm.model",
    "sentencepiece.model", "sentencepiece.bpe.model", "tekken.json", "*.tiktoken",
)  # fmt: skip
"""Files of which a tokenizer has one at least."""
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
"""Names and patterns. Nothing else enters a folder that ictcli downloads or exports: no code, no
pickled weights, nothing hidden."""
ELSEWHERE = tuple(f"*/{name}" for name in FILES if "*" in name)
"""What the patterns would take of folders within, for the hub's client, whose * matches slashes."""
CODE = ("auto_map", "auto_mapping", "model_file", "custom_generate", "custom_pipelines")
"""Settings that name Python to run."""


def fetch(model: str, *, code: bool = False) -> Path:
    """Return the folder in the cache of a model of the hub, with the files of the list. With `code`
    its Python comes too, for who asked for it with engine.trust_remote_code: nothing runs here."""
    import huggingface_hub

    wanted = [*FILES, "*.py"] if code else [*FILES]
    download = cast(Any, huggingface_hub).snapshot_download
    return Path(download(model, allow_patterns=wanted, ignore_patterns=[*ELSEWHERE]))


def listed(folder: Path, names: Sequence[str] = FILES) -> list[Path]:
    """Return the files in a model's folder that have one of the names. UserError for a link out of
    the folder, but for the hub's cache, no plain file, or larger than its kind may be."""
    root = folder.resolve()
    cache = root.parents[1] / "blobs" if root.parent.name == "snapshots" else root
    found = {path.relative_to(folder) for name in names for path in folder.glob(name)}
    plain = [folder / path for path in found if not any(p[0] == "." for p in path.parts)]
    files = sorted(path for path in plain if path.exists() and not path.is_dir())
    for path in files:
        target = path.resolve()
        if not (target.is_relative_to(root) or target.is_relative_to(cache)):
            raise UserError(
                f"{path} is a link that leaves {folder}: what it leads to is not exported.",
                "put the file itself in its place",
            )
        check_file(path, 256 * MIB if path.name in TEXTS else None)
    return files


def take(
    source: Path,
    folder: Path,
    names: Sequence[str] = FILES,
    by: Callable[[Path, Path], Any] = shutil.copyfile,
) -> None:
    """Copy the files of the list, or move them, from one folder to another."""
    for path in listed(source, names):
        place = folder / path.relative_to(source)
        place.parent.mkdir(exist_ok=True)
        by(path, place)


def write_tokenizer(tokenizer: Any, origin: Path | None, folder: Path) -> None:
    """Copy the files of a tokenizer, which no training changes, from the model's folder: those that
    transformers 5 writes are not read by others. It writes one with its own code, or files that are
    not on the list."""
    coded = type(tokenizer).__module__.startswith("transformers_modules")
    if origin is None or coded or not has_tokenizer(origin):
        tokenizer.save_pretrained(folder)
        return
    take(origin, folder, TOKENIZER)
    drop_code(folder, ["tokenizer_config.json"])


def tokenizer_config(folder: Path) -> dict[str, Any]:
    """Return what tokenizer_config.json says; nothing where there is none."""
    path = folder / "tokenizer_config.json"
    return parse_json(read_text(path)) if path.is_file() else {}


def change_tokenizer(folder: Path, **settings: Any) -> None:
    """Change settings of tokenizer_config.json in place."""
    _write(folder / "tokenizer_config.json", tokenizer_config(folder) | settings)


def has_tokenizer(folder: Path) -> bool:
    return any(any(folder.glob(name)) for name in VOCABULARIES)


def drop_code(folder: Path, names: Sequence[str] = ("*config.json",)) -> bool:
    """Drop, in place, settings of these files that name code; return whether one did."""
    named = False
    for path in listed(folder, names):
        settings = parse_json(read_text(path))
        if (plain := _without_code(settings)) != settings:
            _write(path, plain)
            named = True
    return named


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
