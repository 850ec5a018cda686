"""LaTeX brought to one layout, so that what is left to differ is the mathematics.

Text within `\\text{}` stands between the marks OPEN and CLOSE afterwards, and ROW is for `\\\\`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ictcli.rewards.maths.spelling import FUNCTIONS, GREEK, SYNONYMS, UNICODE, WORDY

OPEN, CLOSE, ROW = "\ue000", "\ue001", "\ue002"

_UNICODE_TABLE = str.maketrans(UNICODE)
_BARE = re.compile(
    r"(?<![\\a-zA-Z])(arcsin|arccos|arctan|sinh|cosh|tanh|sqrt|frac|dfrac|infty|infinity|sin|cos|"
    r"tan|cot|sec|csc|ln|log|exp|pi|theta|alpha|cup|binom)(?![a-zA-Z])"
)
_COMMAND = re.compile(r"\\(operatorname\*|[a-zA-Z]+)[ ]?")
_TRAILING = re.compile(rf"[\s.,;:~{ROW}]+$")


def balanced(text: str) -> bool:
    """Whether braces match (escaped ones aside)."""
    depth = 0
    for sign in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            return False
    return depth == 0


def group_end(text: str, start: int) -> int:
    """The place behind the brace that closes the one at `start`; -1 where there is none."""
    depth = 0
    for sign in re.compile(r"\\.|[{}]").finditer(text, start):
        depth += {"{": 1, "}": -1}.get(sign[0], 0)
        if depth == 0:
            return sign.end()
    return -1


def argument(text: str, start: int) -> tuple[str, int] | None:
    """The argument of a command at `start`, a group or one token, and the place behind it."""
    while start < len(text) and text[start] == " ":
        start += 1
    if start >= len(text):
        return None
    if text[start] == "{":
        end = group_end(text, start)
        return None if end < 0 else (text[start + 1 : end - 1], end)
    if text[start] == "\\":
        found = re.compile(r"\\[a-zA-Z]+|\\.").match(text, start)
        return (found[0], found.end()) if found else None
    return (text[start], start + 1) if text[start].isalnum() else None


def replaced(text: str, command: str, make: Callable[[str], str]) -> str:
    """Every `\\command{argument}` replaced by what `make` gives for its argument."""
    pattern = re.compile(rf"\\{re.escape(command)}(?![a-zA-Z])\*?")
    place = 0
    while found := pattern.search(text, place):
        start = found.end()
        if start < len(text) and text[start] == " ":
            start += 1
        if start >= len(text) or text[start] != "{" or (end := group_end(text, start)) < 0:
            place = found.end()
            continue
        new = make(text[start + 1 : end - 1])
        text = text[: found.start()] + new + text[end:]
        place = found.start()
    return text


def _wordy(content: str, command: str) -> str:
    """`\\text{...}`: its words between marks; a number, and an upright e, i or d, is itself."""
    inner = content.strip()
    if inner in FUNCTIONS and command in ("operatorname", "mathop"):
        return f"\\{inner} "
    if inner in ("e", "i", "d") and command.startswith(("math", "operatorname")):
        return f" {inner} "
    if found := re.fullmatch(r"([-+]?\d[\d.,]*) +([A-Za-z][^\d]*)", inner):
        return f" {found[1]}{OPEN}{found[2]}{CLOSE}"
    if not inner or re.fullmatch(r"[\d.,+\-*/=()\[\] ]+", inner):
        return inner and f" {inner} "
    if "\\" in inner or OPEN in inner or "$" in inner:
        return f" {inner} "
    return f"{OPEN}{inner}{CLOSE}"


def _unspaced(found: re.Match[str]) -> str:
    return found[0].replace(" ", "")


def _infix(found: re.Match[str]) -> str:
    name = "frac" if found[2] == "over" else "binom"
    return f"\\{name}{{{found[1].strip()}}}{{{found[3].strip()}}}"


def _arguments(text: str) -> str:
    """\\frac and \\sqrt with braces around their arguments, whatever stood there."""
    out: list[str] = []
    place = 0
    pattern = re.compile(r"\\(frac|binom|sqrt)(?![a-zA-Z])")
    while found := pattern.search(text, place):
        out.append(text[place : found.start()])
        place, parts = found.end(), [found[0]]
        if found[1] == "sqrt":
            index = re.compile(r"\s*\[([^\[\]]*)\]").match(text, place)
            if index:
                parts.append(f"[{index[1].strip()}]" if index[1].strip() != "2" else "")
                place = index.end()
            inside = re.compile(r"\s*\(").match(text, place)
            end = round_end(text, inside.end() - 1) if inside else -1
            if inside and end > 0:
                parts.append("{" + _arguments(text[inside.end() : end - 1]) + "}")
                out.append("".join(parts))
                place = end
                continue
        for _ in range(1 if found[1] == "sqrt" else 2):
            given = argument(text, place)
            if given is None:
                break
            parts.append("{" + _arguments(given[0]) + "}")
            place = given[1]
        out.append("".join(parts))
    return "".join(out) + text[place:]


def round_end(text: str, start: int) -> int:
    """The place behind the parenthesis that closes the one at `start`; -1 where there is none."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place + 1
    return -1


def tidy(text: str) -> str:
    """One layout for many spellings."""
    text = re.sub(r"√\s*(\d+(?:\.\d+)?|[a-zA-Z])", r"\\sqrt{\1}", text)
    text = text.translate(_UNICODE_TABLE).replace("**", "^" if "**" in text.strip("* ") else "")
    text = re.sub(r"\\\\(?:\[[\d.]+[a-z]{2}\])?", ROW, text)
    text = re.sub(r"\\[hv]space\*?\{[^{}]*\}", " ", text)
    text = re.sub(r"\\(?:left|right)\s*\.(?!\d)", "", text)
    text = text.replace("\\$", f"{OPEN}dollars{CLOSE}").replace("\\%", "%").replace("\\&", "&")
    if text.count("$") == 1:
        text = re.sub(r"\$(?=\s*[\d.])", f"{OPEN}dollars{CLOSE}", text)
    text = text.replace("$", " ")
    text = re.sub(r"\\[()]|\\\[|(?<!\\)\\\](?!\[)", " ", text)
    text = re.sub(r"(?<=\d)(?:,?\\!|\\,|\{,\})(?=\d{3}(?!\d))", "", text)  # of thousands
    text = re.sub(
        r"(?<![\d.,] )(?<![\d.,])(\d{1,3})((?: \d{3})+)(?![\d.,/]| [\d/]| ?\\frac)", _unspaced, text
    )
    text = re.sub(r"\\[!,;:> ]|~", lambda found: "" if found[0] == "\\!" else " ", text)
    for name in ("textcircled", "color", "phantom", "hphantom", "label", "tag"):
        text = replaced(text, name, lambda _: "")
    text = re.sub(r"\\textcolor\{[^{}]*\}", "", text)
    text = re.sub(r"(\d)\s*\^\{?\s*\\text\{(?:st|nd|rd|th)\}\s*\}?", r"\1", text)
    text = re.sub(r"\\not\s*(?:=|\{=\})|(?<=[a-zA-Z\s])!=", r"\\ne ", text)
    text = re.sub(
        r"(?<![A-Za-z_{\\\d.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![\d._])", r"\1\\cdot 10^{\2}", text
    )
    for _ in range(3):  # text within text
        for name in WORDY:
            text = replaced(text, name, partial(_wordy, command=name))
    text = _BARE.sub(lambda found: "\\" + {"infinity": "infty"}.get(found[1], found[1]), text)

    def canonical(found: re.Match[str]) -> str:
        name = SYNONYMS.get(found[1], found[1])
        command = f"\\{name}" if name[:1].isalpha() else name
        following = text[found.end() : found.end() + 1]
        return command + (" " if name[-1:].isalpha() and following.isalpha() else "")

    for _ in range(2):
        text = _COMMAND.sub(canonical, text)
    text = replaced(text, "mathbf", lambda inner: f"\\vec{{{inner}}}" if inner.isalpha() else inner)
    text = re.sub(r"\^\{\\circ\}|\^\\circ|(?<=\d)\^\{?o\}?$", f"{OPEN}degrees{CLOSE}", text)
    text = re.sub(rf"{OPEN}degrees{CLOSE}\s*([CF])(?![a-zA-Z])", f"{OPEN}degrees \\1{CLOSE}", text)
    text = re.sub(r"\{([^{}]*)\\(over|choose)(?![a-z])([^{}]*)\}", _infix, text)
    text = re.sub(r"^([^{}]*)\\(over|choose)(?![a-z])([^{}]*)$", _infix, text)
    text = _arguments(text)
    text = re.sub(r"([_^])\s*(\w)", r"\1{\2}", text)
    text = re.sub(
        rf"\(?\s*(?:\\[bp]?mod|{OPEN}mod{CLOSE})\s*\{{?\s*(\w+)\s*\}}?\s*\)?", r"\\pmod{\1}", text
    )
    text = re.sub(r"\{\s*([a-zA-Z0-9])\s*\}", r"{\1}", text)
    text = re.sub(r"\s+", " ", text).strip()
    previous = ""
    while previous != text:
        previous = text
        text = _TRAILING.sub("", text).strip()
        if text[:1] == "{" and group_end(text, 0) == len(text):
            text = text[1:-1].strip()
    return text


def letters(text: str) -> set[str]:
    """The symbols in tidy LaTeX, e and i aside."""
    signs = set(re.findall(r"\\[a-zA-Z]+|[A-Za-z]", text))
    return {sign for sign in signs if sign.isalpha() or sign[1:] in GREEK} - {"e", "i"}


def flat(text: str) -> str:
    """A tidy answer for comparison letter by letter: no spaces but those between numbers and behind
    commands, no braces around one sign."""
    text = text.replace(OPEN, "").replace(CLOSE, "")
    text = re.sub(r"(?<=\d)\s+(?=[\d.])", "\x01", text)
    text = re.sub(r"(\\[a-zA-Z]+)\s+(?![a-zA-Z])|\s+", lambda found: found[1] or "\x00", text)
    text = re.sub(r"(?<=\\)([a-zA-Z]+)\x00(?=[a-zA-Z])", "\\1\x01", text).replace("\x00", "")
    return re.sub(r"(?<=[\^_])\{(\w)\}", r"\1", text).replace("\x01", " ")
