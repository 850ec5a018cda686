"""Which problems are held out of training, and by what two are known to be the same."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence

from ictcli.types import Problem

HELDOUT_DIVISOR = 16


def key_of(prompt: str) -> str:
    """SHA-256 of a prompt without what two copies of a problem differ in: case, white space, and
    forms of one character (NFKC)."""
    same = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", prompt).casefold())
    return hashlib.sha256(" ".join(same.split()).encode("utf-8", "replace")).hexdigest()


def is_heldout(prompt: str) -> bool:
    """One in sixteen, by its key: copies of a problem are on one side."""
    return int(key_of(prompt)[:8], 16) % HELDOUT_DIVISOR == 0


def digest_of(problems: Sequence[Problem]) -> str:
    """SHA-256 of problems in their order: prompts, golds and choices."""
    found = hashlib.sha256()
    for problem in problems:
        told = json.dumps([problem.prompt, problem.gold, list(problem.choices)])
        found.update(told.encode() + b"\n")
    return found.hexdigest()
