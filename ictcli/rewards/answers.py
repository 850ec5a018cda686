"""The answer in a response: the last box, the text after `####`, or the match of a pattern.

A number elsewhere in the text is never taken for the answer. The time is linear in the response,
whatever it holds; only a pattern of the user's own may be slower, and has a time limit.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from ictcli.recipe.patterns import compiled

Source = Literal["", "box", "boxes", "hashes", "pattern", "words", "last line", "response"]
"""Where an answer stands: in the last box, in several boxes of one sentence, after `####`, in the
match of the pattern, after "answer is" or the like, alone on the last line; or it is the whole
response. Empty without an answer."""

NO_ANSWER = "no answer in a box"
NO_MATCH = "the answer pattern matches nothing"
LONGEST_BOX = 100_000
"""Characters of the longest box; a longer one counts as not closed."""
LONGEST_AT_ONCE = 200
"""Characters of the longest text that is parsed outside the workers: parsing takes more than linear
time."""
PATTERN_SECONDS = 1.0
"""CPU time of a search with a pattern."""

_OPENING = re.compile(r"\\(?:boxed|fbox)\s*+\{")
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_BARE = re.compile(r"\\(?:boxed|fbox)(?:\s++([^\s{}$\\])|([0-9]))")
_HASHES = re.compile(r"#{4,}+\s*+([^\s#].*)?", re.S)
_LAYOUT = re.compile(r"[\s$~*]|\\(?:[()\[\],;:! ]|q?quad(?![a-z])|text\s?\{)|\}")
_JOINTS = {",", ";", "and", ",and", ";and"}
_LONGEST_JOINT = 60
_MOST_JOINED = 100


class Located(NamedTuple):
    """The answer in a response."""

    answer: str | None
    """None if there is none."""
    source: Source
    missing: str = NO_ANSWER
    """Why there is no answer, if there is none or it is empty."""


def boxes(text: str) -> list[str]:
    """The content of the last balanced \\boxed{} or \\fbox{}, after those of the boxes before it in
    its sentence, as in `\\boxed{1}, \\boxed{2} and \\boxed{3}`; empty without a box.

    Boxes are of one sentence if only a comma or semicolon, "and" and layout stand between them.
    Empty boxes are skipped; if all boxes are empty, there is one empty content.
    """
    sentence: deque[str] = deque()
    passed: dict[int, int] = {}  # empty boxes: place of the opening brace to the end
    limit = place = len(text)  # no box that opens before `place` closes after `limit`
    while (place := text.rfind("box", 0, place)) > 0 and len(sentence) < _MOST_JOINED:
        start = max(place - 2 + (text[place - 1] == "\\"), 0)  # \fbox or \boxed
        opening = _OPENING.match(text, start)
        if opening is None:
            continue
        begin = opening.end()
        end, empty = _closing(text, begin, min(limit, begin + LONGEST_BOX), passed)
        if sentence and (end < 0 or not (empty or _joined(text, end, limit))):
            break
        if end < 0:
            limit = start
        elif empty:
            passed[begin - 1] = end
        else:
            sentence.appendleft(text[begin : end - 1].strip())
            limit = start
    if sentence or passed:
        return list(sentence) or [""]
    bare = deque(_BARE.finditer(text) if "box" in text else (), maxlen=1)
    return [bare[0][1] or bare[0][2]] if bare else []


def _closing(text: str, begin: int, limit: int, passed: dict[int, int]) -> tuple[int, bool]:
    """The end of the box whose content begins at `begin`, or -1 if it does not close before
    `limit`; and whether the box holds only blanks and empty boxes."""
    place, depth, empty = begin, 1, True
    while depth:
        brace = _BRACE.search(text, place, limit)
        if brace is None:
            return -1, False
        between = text[place : brace.start()]
        place = brace.end()
        if end := passed.get(place - 1):
            between = between.rstrip().removesuffix("\\boxed").removesuffix("\\fbox")
            place = end
        elif brace[0] == "}":
            depth -= 1
        else:
            depth += brace[0] == "{"
            empty = False
        empty = empty and not between.strip()
    return place, empty


def _joined(text: str, end: int, start: int) -> bool:
    """Whether a box that ends at `end` and one that starts at `start` are of one sentence."""
    if start - end > _LONGEST_JOINT:
        return False
    return "".join(_LAYOUT.sub(" ", text[end:start]).split()) in _JOINTS


def boxed(text: str) -> str | None:
    """The content of the last balanced box that is not empty; None without a box."""
    contents = boxes(text)
    return contents[-1] if contents else None


def hashed(text: str) -> str | None:
    """The text after the last `####` on its line, as in GSM8K's solutions; None without one."""
    stop = len(text)
    while (place := text.rfind("####", 0, stop)) >= 0:
        stop, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        line = text[stop : len(text) if end < 0 else end]
        place = 0
        while (place := line.find("####", place)) >= 0:
            hashes = _HASHES.match(line, place)
            assert hashes is not None
            if hashes[1]:
                return hashes[1].strip("* \t\r")
            place = hashes.end()
    return None


def matched(text: str, pattern: str, seconds: float = PATTERN_SECONDS) -> Located:
    """The last match of a pattern: its first group, or all of it. No answer without a match, or if
    the search takes more than `seconds`."""
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
    """The answer in a response: the last box, else the text after `####`.

    `listed` counts the answers in a text. If the gold lists several, and the boxes of the last
    sentence hold as many, the answer is these boxes together, as a list."""
    contents = boxes(text)
    if listed is not None and len(contents) > 1:
        together = ", ".join(contents)
        if len(together) <= LONGEST_AT_ONCE and 1 < listed(gold) == listed(together):
            return Located(together, "boxes")
    if contents:
        return Located(contents[-1], "box")
    answer = hashed(text)
    return Located(answer, "" if answer is None else "hashes")


def extract(response: str, pattern: str | None = None) -> str | None:
    """The answer in a response, or None: by `pattern` if there is one, else the last balanced box,
    else the text after `####`."""
    return (located(response) if pattern is None else matched(response, pattern)).answer
