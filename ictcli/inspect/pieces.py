"""Tokens as text: what each token adds to its rollout, and signs for what cannot be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.engine.models import locate, snapshot
from ictcli.errors import UserError
from ictcli.inspect.record import Recorded

Decode = Callable[[Sequence[int]], str]


def decoder(recorded: Recorded, model: str | None = None) -> Decode | None:
    """The tokenizer's decoding of the run's model, or of `model`; None where there is none here.

    A tokenizer.json is read without transformers, which takes seconds to import.
    """
    folder = _tokenizer_folder(recorded, model)
    if folder is None:
        return None
    try:
        if (folder / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
            return lambda ids: fast.decode(list(ids), skip_special_tokens=False)
        from transformers import AutoTokenizer

        slow = cast(Any, AutoTokenizer).from_pretrained(folder, local_files_only=True)
        return lambda ids: slow.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    except Exception:  # whatever a tokenizer that cannot be read raises: ids are shown instead
        return None


def _tokenizer_folder(recorded: Recorded, model: str | None) -> Path | None:
    run = recorded.place.run
    if model is None and run and (run / "model" / "tokenizer.json").is_file():
        return run / "model"
    named = model or recorded.recipe.model
    if not named:
        return None
    try:
        return snapshot(locate(named).path)
    except UserError:
        if model is not None:
            raise
        return None


def pieces(ids: Sequence[int], decode: Decode | None) -> list[str]:
    """What each token adds to the text; joined they are the text.

    The last token of a character that several make up holds it whole, the others nothing. Without
    a decoder a token is its id. A window of tokens is decoded at a time, as servers stream.
    """
    if decode is None:
        return [f"<{number}>" for number in ids]
    found: list[str] = []
    start = read = 0  # what is decoded again as context, and what is told already
    for end in range(1, len(ids) + 1):
        before, now = decode(ids[start:read]), decode(ids[start:end])
        if len(now) > len(before) and (not now.endswith("\ufffd") or end == len(ids)):
            found.append(now[len(before) :])
            start, read = read, end
        else:
            found.append("")
    return found
