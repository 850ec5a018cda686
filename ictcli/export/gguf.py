"""GGUF by llama.cpp's own converter, where that is on this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from ictcli.engine.model_files import change_tokenizer
from ictcli.errors import RunFailedError, UserError
from ictcli.export.asked import tokenizer_in
from ictcli.files.reading import parse_json, read_text

SCRIPT = "convert_hf_to_gguf.py"
FOLDER = "LLAMA_CPP"
"""The environment variable that names a folder of llama.cpp."""
UNREAD = "llama.cpp's conversion came after, and its file is not read back."
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def converter() -> list[str]:
    """The command that begins llama.cpp's converter: on PATH, in the folder $LLAMA_CPP, or beside
    llama-quantize. UserError where there is none."""
    if command := shutil.which(SCRIPT):
        return [command]
    folders = [Path(named).expanduser()] if (named := os.environ.get(FOLDER)) else []
    if quantize := shutil.which("llama-quantize"):
        folders += Path(quantize).resolve().parents[:3]  # a build's bin/ is two below the clone
    for folder in folders:
        if (folder / SCRIPT).is_file():
            return [sys.executable, str(folder / SCRIPT)]
    raise UserError(
        f"--to gguf needs llama.cpp's converter, and {SCRIPT} is not found.",
        "git clone https://github.com/ggml-org/llama.cpp && pip install gguf, then "
        f"{FOLDER}=llama.cpp before the command; or --to ollama, which needs none",
    )


def convert(model: Path, out: Path, command: list[str]) -> None:
    """Write a model folder as one file, in the precision of its weights. RunFailedError with what
    the converter says last."""
    config = parse_json(read_text(model / "config.json"))
    _name_end(model, config)
    precision = TYPES.get(config.get("dtype") or config.get("torch_dtype"), "auto")
    more = ["--outfile", str(out), "--outtype", precision, str(model)]
    imports = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [*command, *more], capture_output=True, text=True, errors="replace", env=imports
    )
    if done.returncode or not out.is_file():
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise RunFailedError(
            f"llama.cpp's converter failed: {said[:300].rstrip('.')}.",
            "it may not know this model or tokenizer: try a newer one, or --to ollama",
        )


def _name_end(model: Path, config: dict[str, Any]) -> None:
    """In place: the tokenizer's end token is the model's. Where it is another, the converter would
    take it all the same, and no answer would end."""
    named = config.get("eos_token_id")
    ends = cast(list[Any], named if isinstance(named, list) else [named])
    tokenizer = tokenizer_in(model)
    if ends and isinstance(ends[0], int) and tokenizer.eos_token_id not in ends:
        change_tokenizer(model, eos_token=tokenizer.convert_ids_to_tokens(ends[0]))
