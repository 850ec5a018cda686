"""Find the answer in a response: the last box, the text after `####`, or the match of a pattern.

A number elsewhere in the text never counts as the answer. The search takes time linear in the
response's length; only a user's own pattern may take longer, and it has a time limit."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ictcli.text import compiled

NO_ANSWER = "no answer in a box or after ####"
NO_MATCH = "the answer pattern matches nothing"
LONGEST_BOX = 100_000
"""Maximum number of characters in a box; a longer box counts as not closed."""
LONGEST_AT_ONCE = 200
"""Maximum number of characters of a text that is parsed in this process. Longer texts are parsed in
worker processes, as parsing takes more than linear time."""
PATTERN_SECONDS = 1.0
"""Maximum CPU time of one search with a user's pattern."""

_OPENING = re.compile(r"\\(?:boxed|fbox)\s*+\{")
_BRACE = re.compile(rf"{_OPENING.pattern}|\\[{{}}]|\\\\(?!boxed|fbox)|[{{}}]")
_PLAIN = (-1, -1)
"""Stands for an open brace that is not a box's, in `outer_boxes`."""
_EMPTY = re.compile(rf"(?:{_OPENING.pattern}|[\s}}])*+")
_BARE = re.compile(r"\\(?:boxed|fbox)(?:\s++([^\s{}$\\])|([0-9]))")
_HASHES = re.compile(r"#{4,}+\s*+")
_LAYOUT = re.compile(r"[\s$~*]|\\(?:[()\[\],;:! ]|q?quad(?![a-z])|text\s?\{)|\}")
_NAME = re.compile(r"(?<![A-Za-z\\])([A-Za-z](?:_\{?\w+\}?)?)\s*=\s*$")
_JOINTS = {*",;", *(sign + word for sign in ("", ",", ";") for word in ("and", "or"))}
_LONGEST_JOINT = 60
_MOST_JOINED = 100


class Located(NamedTuple):
    """The answer in a response."""

    answer: str | None
    """None if the response has no answer."""
    source: str
    """Where the answer was found: a key of `explanations.SOURCES`."""
    missing: str = NO_ANSWER
    """The reason to give in the verdict if the answer is None or empty."""


class Span(NamedTuple):
    """The place of a box, or of a `####` and the rest of its line, and the slice of its content."""

    start: int
    end: int
    content: slice


def boxes(text: str) -> list[str]:
    """Return the contents of the last box (\\boxed{} or \\fbox{}) and the boxes before it in its
    sentence: three for `\\boxed{1}, \\boxed{2} and \\boxed{3}`. Return [] if there is no box.

    Two boxes are in one sentence if only a comma or semicolon, "and" or "or", and layout stand
    between them. A box inside another box is part of its content. Empty boxes are skipped, but if
    all boxes are empty, return [""]."""
    if "box" not in text:
        return []
    closed = outer_boxes(text)
    full = [box for box in closed if not _EMPTY.fullmatch(text[box.content])]
    if not full:
        bare = deque(_BARE.finditer(text), maxlen=1)
        return [""] if closed else [bare[0][1] or bare[0][2]] if bare else []
    sentence = deque([full.pop()])
    while full and len(sentence) < _MOST_JOINED and _joined(text, full[-1], sentence[0]):
        sentence.appendleft(full.pop())
    return [text[box.content].strip() for box in sentence]


def outer_boxes(text: str) -> list[Span]:
    """Return the balanced boxes that are not inside another box, in order. If a box holds nothing
    but another box, its content is that of the inner box."""
    closed: list[Span] = []
    opened: deque[tuple[int, int]] = deque()  # (start of a box, of its content), or _PLAIN
    place = 0
    while token := (_BRACE if opened else _OPENING).search(text, place):
        place = token.end()
        while opened and (opened[0] == _PLAIN or place - opened[0][1] > LONGEST_BOX):
            opened.popleft()
        if token[0][-1] == "{" and len(token[0]) > 2:
            opened.append((token.start(), place))
        elif token[0] == "{" and opened:
            opened.append(_PLAIN)
        elif token[0] == "}" and opened and (top := opened.pop()) != _PLAIN:
            start, begin = top
            inner: list[Span] = []
            while closed and closed[-1].start > start:
                inner.append(closed.pop())
            content = slice(begin, place - 1)
            if len(inner) == 1:
                around = text[begin : inner[0].start] + text[inner[0].end : place - 1]
                content = content if around.strip() else inner[0].content
            closed.append(Span(start, place, content))
    return closed


def _joined(text: str, first: Span, second: Span) -> bool:
    """Return whether two boxes are in one sentence; the same name, as `x =`, may precede both."""
    between = text[first.end : second.start]
    if len(between) > _LONGEST_JOINT:
        return False
    if name := _NAME.search(between):
        before = _NAME.search(text, max(0, first.start - _LONGEST_JOINT), first.start)
        between = between[: name.start()] if before and before[1] == name[1] else between
    return "".join(_LAYOUT.sub(" ", between).split()) in _JOINTS


def boxed(text: str) -> str | None:
    """Return the contents of the last sentence's boxes, joined by commas; None without a box."""
    contents = boxes(text)
    return ", ".join(contents) if contents else None


def hashed(text: str) -> str | None:
    """Return the rest of the line after the last `####`, as in GSM8K's solutions, or None."""
    line = next(hashes(text), None)
    return None if line is None else text[line.content].strip("* \t\r")


def hashes(text: str) -> Iterator[Span]:
    """Yield the span of each `####` that text follows on its line, last one first."""
    stop = len(text)
    while (place := text.rfind("####", 0, stop)) >= 0:
        stop, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        end = len(text) if end < 0 else end
        for marks in _HASHES.finditer(text, stop, end):
            if marks.end() < end and text[marks.end()] != "#":
                yield Span(marks.start(), end, slice(marks.end(), end))
                break


def matched(text: str, pattern: str, seconds: float = PATTERN_SECONDS) -> Located:
    """Return the first group of a pattern's last match, or the whole match if it has no group. The
    answer is None if nothing matches or the search takes more than `seconds`."""
    try:
        matches = deque(compiled(pattern).finditer(text, timeout=seconds), maxlen=1)
    except TimeoutError:
        return Located(None, "", f"the answer pattern took more than {seconds:g} s")
    except MemoryError:
        return Located(None, "", "the answer pattern took too much memory")
    if not matches:
        return Located(None, "", NO_MATCH)
    groups = [group for group in matches[0].groups() if group is not None]
    return Located((groups[0] if groups else matches[0][0]).strip(), "pattern", NO_MATCH)


def located(text: str, gold: str = "", listed: Callable[[str], int] | None = None) -> Located:
    """Return the answer in a response: the last box, else the text after `####`.

    `listed` is a function that counts the answers in a text. If the gold lists several answers and
    the boxes of the last sentence hold as many, the answer is their contents, joined by commas."""
    contents = boxes(text)
    if listed is not None and len(contents) > 1:
        together = ", ".join(contents)
        if len(together) <= LONGEST_AT_ONCE and 1 < listed(gold) == listed(together):
            return Located(together, "boxes")
    if contents:
        return Located(contents[-1], "box")
    answer = hashed(text)
    return Located(answer, "" if answer is None else "hashes")
