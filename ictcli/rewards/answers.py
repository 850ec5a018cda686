"""The answer in a response: the last box, the text after `####`, or the match of a pattern.

A number elsewhere in the text is never taken for the answer.
"""

import re
from collections import deque

from ictcli.recipe.patterns import compiled

_MARKS = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[\\{}]|[{}]")
_BARE = re.compile(r"\\(?:boxed|fbox)\s+([^\s{}$\\])|\\(?:boxed|fbox)([0-9])")
_HASHES = re.compile(r"#{4,}[^\S\n]*([^\s#].*)")
PATTERN_SECONDS = 1.0


def boxed(text: str) -> str | None:
    """The content of the last balanced \\boxed{} or \\fbox{}, in linear time; None without one."""
    opened: list[tuple[bool, int]] = []  # each open brace: is it a box, start of its content
    content: str | None = None
    start = -1
    for mark in _MARKS.finditer(text):
        sign = mark[0]
        if sign == "}":
            if opened:
                is_box, begin = opened.pop()
                if is_box and begin > start:
                    inside = text[begin : mark.start()].strip()
                    if inside or content is None:  # an empty box after a full one is ignored
                        content, start = inside, begin
        elif sign == "{" or len(sign) > 2:
            opened.append((len(sign) > 2, mark.end()))
    if content is not None:
        return content
    bare = deque(_BARE.finditer(text), maxlen=1)
    return (bare[0][1] or bare[0][2]) if bare else None


def hashed(text: str) -> str | None:
    """The text after the last `####` on its line, as in GSM8K's solutions; None without one."""
    answers = _HASHES.findall(text)
    return answers[-1].strip("* \t\r") if answers else None


def matched(text: str, pattern: str) -> str | None:
    """The last match of a pattern: its first group, or all of it. None without a match, or if the
    search takes longer than PATTERN_SECONDS."""
    try:
        matches = deque(compiled(pattern).finditer(text, timeout=PATTERN_SECONDS), maxlen=1)
    except TimeoutError:
        return None
    if not matches:
        return None
    groups = [group for group in matches[0].groups() if group is not None]
    return (groups[0] if groups else matches[0][0]).strip()


def extract(response: str, pattern: str | None = None) -> str | None:
    """The answer in a response, or None: by `pattern` if there is one, else the last balanced box,
    else the text after `####`."""
    if pattern is not None:
        return matched(response, pattern)
    answer = boxed(response)
    return hashed(response) if answer is None else answer
