"""Tokens as text: what each token adds to its rollout, and signs for what cannot be shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.inspect.record import Recorded
from ictcli.models import locate, snapshot

Decode = Callable[[Sequence[int]], str]

SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
PART = "◌"
"""Stands for a token that holds only a part of a character, and under a mark without its letter."""
HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Printable by Unicode and seen by nobody."""


def visible(text: str) -> str:
    """Model text that cannot move a cursor or hide: control and format characters, halves of
    surrogate pairs and those that nobody sees become signs."""
    return "".join(c if c.isprintable() and c not in HIDDEN else SIGNS.get(c, "·") for c in text)


def sign(piece: str) -> str:
    """One token to be seen: never empty, never only spaces, and no mark on the token before."""
    shown = visible(piece)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        return PART + shown
    return shown if shown.strip() else "␣" * len(shown) or PART


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
