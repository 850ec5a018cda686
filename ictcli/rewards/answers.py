"""The answer in a response: the last box, what follows `####`, or what a pattern of yours matches.

Never a number found somewhere in the text.
"""

from __future__ import annotations

import re
from collections import deque

from ictcli.recipe.patterns import compiled

_MARKS = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[\\{}]|[{}]")
_BARE = re.compile(r"\\(?:boxed|fbox)\s+([^\s{}$\\])|\\(?:boxed|fbox)([0-9])")
_HASHES = re.compile(r"#{4,}[^\S\n]*([^\s#].*)")
PATTERN_SECONDS = 1.0


def boxed(text: str) -> str | None:
    """The content of the last balanced \\boxed{} (or \\fbox{}), read once from left to right."""
    opened: list[tuple[bool, int]] = []  # of each brace still open: a box's?, and where it begins
    found: str | None = None
    start = -1
    for mark in _MARKS.finditer(text):
        sign = mark[0]
        if sign == "}":
            if opened:
                is_box, begin = opened.pop()
                if is_box and begin > start:
                    inside = text[begin : mark.start()].strip()
                    if inside or found is None:  # an empty box behind a full one says nothing
                        found, start = inside, begin
        elif sign == "{" or len(sign) > 2:
            opened.append((len(sign) > 2, mark.end()))
    if found is not None:
        return found
    bare = deque(_BARE.finditer(text), maxlen=1)
    return (bare[0][1] or bare[0][2]) if bare else None


def hashed(text: str) -> str | None:
    """What follows the last `####` on its line, as in GSM8K's own solutions."""
    found = _HASHES.findall(text)
    return found[-1].strip("* \t\r") if found else None


def matched(text: str, pattern: str) -> str | None:
    """The last match of a pattern of yours; None too where it takes more than a second."""
    try:
        found = deque(compiled(pattern).finditer(text, timeout=PATTERN_SECONDS), maxlen=1)
    except TimeoutError:
        return None
    if not found:
        return None
    groups = [group for group in found[0].groups() if group is not None]
    return (groups[0] if groups else found[0][0]).strip()


def extract(response: str, pattern: str | None = None) -> str | None:
    """The answer of a response, or None: by `pattern` where one is given, else the last balanced
    box, else what follows `####`."""
    if pattern is not None:
        return matched(response, pattern)
    found = boxed(response)
    return hashed(response) if found is None else found
