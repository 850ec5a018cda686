"""Verifiers of answers to mathematical questions: integers, and expressions by math-verify."""

from __future__ import annotations

import re
from typing import Any, cast

from ictcli.rewards import Verdict, register_verifier

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_HASHES = re.compile(r"####\s*(.+)")
_INTEGER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?")


def extract(response: str) -> str | None:
    """The content of the last balanced \\boxed{} (or \\fbox{}); without one, what follows the last
    `####`. Never a number found somewhere in the text."""
    for opening in reversed(list(_BOX.finditer(response))):
        depth = 1
        for end in range(opening.end(), len(response)):
            depth += (response[end] == "{") - (response[end] == "}")
            if depth == 0:
                return response[opening.end() : end].strip()
    found = _HASHES.findall(response)
    return found[-1].strip() if found else None


def as_integer(text: str) -> int | None:
    """`1,234`, `$18`, `007`, `12.0` as an integer, else None."""
    bare = text.replace("\\$", "").replace("$", "").replace("\\!", "").strip()
    if not _INTEGER.fullmatch(bare) or len(bare) > 400:
        return None
    return int(bare.split(".")[0].replace(",", ""))


@register_verifier("integer")
def integer(response: str, gold: str) -> Verdict:
    """The boxed (or `####`) answer against an integer gold."""
    answer = extract(response)
    value = None if answer is None else as_integer(answer)
    if value is None:
        return Verdict("unparsed", answer or "")
    return Verdict("correct" if value == as_integer(gold) else "wrong", str(value))


@register_verifier("math")
def math(response: str, gold: str) -> Verdict:
    """The boxed answer against a LaTeX gold: integers at once, everything else by math-verify."""
    answer = extract(response)
    if answer is None:
        return Verdict("unparsed")
    left, right = as_integer(answer), as_integer(gold)
    if left is not None and right is not None:
        return Verdict("correct" if left == right else "wrong", answer)
    import math_verify  # pyright: ignore[reportMissingTypeStubs]

    library = cast(Any, math_verify)
    parsed = library.parse(f"\\boxed{{{answer}}}")
    if not parsed:
        return Verdict("unparsed", answer)
    same = library.verify(library.parse(f"\\boxed{{{gold}}}"), parsed)
    return Verdict("correct" if same else "wrong", answer)
