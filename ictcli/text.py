"""Text made safe for terminals, shells, HTML and Markdown; text of durations; answer patterns."""

import html
import json
import math
import os
import re
import shlex
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TextIO, cast

from ictcli.errors import UserError

SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
PART = "◌"
"""Shown for a token that is only a part of a character, or before a combining mark."""
HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Invisible characters that Unicode calls printable."""
SPACES = "".join(map(chr, (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""Unicode's spaces other than the ASCII space."""
UNUSUAL = re.compile(r"[^ -~]")
MARKUP = re.compile(r"([\\`*_\[\]|~])")
OPENING = re.compile(r"^(\d*)([#+=.)-])(?=#*(?:\s|$)|[-= ]+$)")
"""Matches what would start a heading, a list or a rule at the beginning of a paragraph."""
BREAKS = "\n\t"
BAR = re.compile(r"\r|(?:\n|\x1b\[A)+\Z")
"""Matches the control characters with which a progress bar rewrites a line or changes lines."""


def visible(text: str, keep: str = "") -> str:
    """Return text made safe for a terminal: control, format and invisible characters and lone
    surrogates are replaced by visible signs, except those in `keep`."""
    return UNUSUAL.sub(lambda c: c[0] if _shows(c[0], keep) else SIGNS.get(c[0], "·"), text)


def _shows(character: str, keep: str) -> bool:
    return character in keep or (character.isprintable() and character not in HIDDEN)


def folded(text: str) -> str:
    """Return a text case-folded and NFKC-normalised, for comparison with others."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def one_line(text: object) -> str:
    """Return a value as text on one line, safe for a terminal."""
    return visible(str(text), SPACES)


def shell_word(text: object) -> str:
    """Quote a path or a name for the shell; `-x` becomes `./-x`, which is not an option."""
    word = _in_shell(str(text))
    return f"./{word}" if str(text).startswith("-") else word


def _in_shell(word: str) -> str:
    """Quote a word for bash and zsh, always on one line."""
    if word.isprintable():
        return shlex.quote(word)
    signs = {"'": "\\'", "\\": "\\\\"}
    escapes = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)
    return f"$'{''.join(signs.get(c, c) for c in escapes)}'"


def command(verb: str, *words: object, **options: object) -> str:
    """Return an ictcli command line, each word quoted for the shell. An option whose value is None
    or False is left out, True gives the option's name alone, and a list repeats the option."""
    parts = ["ictcli", *verb.split()]
    parts += [f"./{word}" if word.startswith("-") else word for word in map(str, words)]
    for name, value in options.items():
        values = cast(list[object], value) if isinstance(value, list | tuple) else [value]
        for item in values:
            if item is not None and item is not False:
                parts += [f"--{name}", *([] if item is True else [str(item)])]
    return " ".join(map(_in_shell, parts))


def command_again(*more: object) -> str:
    """Return the command line of this process, quoted for the shell, with `more` words appended."""
    words = ["ictcli", *sys.argv[1:], *map(str, more)]
    return " ".join(map(_in_shell, words)).encode("utf-8", "replace").decode()


def escaped(data: str, wide: str = "\\U{:08x}") -> str:
    """Escape the characters that `visible` replaces, for strings of TOML or YAML. For JSON pass
    `wide=""`: characters above U+FFFF become surrogate pairs."""

    def escape(match: re.Match[str]) -> str:
        c = match[0]
        if _shows(c, SPACES + "\n"):
            return c
        return wide.format(ord(c)) if wide and ord(c) > 0xFFFF else json.dumps(c)[1:-1]

    return UNUSUAL.sub(escape, data)


def finite(data: Any) -> Any:
    """Return data with None for NaN and infinite numbers, which JSON does not have."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in cast(dict[Any, Any], data).items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in cast(list[Any], data)]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def wrapped(line: str, stream: TextIO) -> str:
    """Return a line wrapped to the width of the stream's terminal; unchanged without a terminal."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return line
    if not width:
        return line
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def quoted(value: Any) -> str:
    """Return a text, a number, or a list of them in a notation that both TOML and YAML read."""
    return escaped(json.dumps(value, ensure_ascii=False))


def html_text(text: object, keep: str = "") -> str:
    """Return text escaped for HTML and its attributes; control characters in `keep` stay."""
    return html.escape(visible(str(text), SPACES + keep))


def markdown_text(text: object) -> str:
    """Return text on one line, escaped for Markdown and the HTML in it."""
    shown = html.escape(one_line(text).strip(), quote=False)
    return OPENING.sub(r"\1\\\2", MARKUP.sub(r"\\\1", shown))


def markdown_code(value: object) -> str:
    """Return any value as one line of inline code, `-` if it is empty."""
    text = " ".join(visible(str(value), SPACES + BREAKS).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    text = text.replace("|", "\\|")
    return f"{fence}{pad}{text}{pad}{fence}" if text else "-"


def markdown_block(text: str, kind: str = "") -> str:
    """Return text as a fenced code block in the language `kind`."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{kind}\n{visible(text, SPACES + BREAKS)}\n{fence}"


class VisibleStream:
    """A stream that makes text safe with `visible`. Progress displays write to `unfiltered`."""

    def __init__(self, stream: TextIO) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        bar = BAR.match(text)
        start = bar.end() if bar else 0
        self.unfiltered.write(text[:start] + visible(text[start:], SPACES + BREAKS))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def sign(piece: str) -> str:
    """Return a token as visible text: never blank, and not combining with the token before."""
    shown = visible(piece)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        return PART + shown
    return shown if shown.strip() else "␣" * len(shown) or PART


def duration(seconds: float) -> str:
    """Return seconds as text: `42s`, `3m07s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def middle_cut(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters by replacing its middle with `...`."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def kind_of(value: Any) -> str:
    """Return the type of a value in words: text, a list, an object, a number, nothing."""
    if value is None:
        return "nothing"
    kinds = ((str, "text"), (list, "a list"), (dict, "an object"), (int | float, "a number"))
    return next((word for kind, word in kinds if isinstance(value, kind)), type(value).__name__)


def figure(value: Any, form: str = ".3f") -> str:
    """Return a number in the format `form`; `-` for None."""
    return "-" if value is None else format(value, form)


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """Return an answer pattern, compiled. Its first group is the answer, or the whole match if it
    has no group. UserError if it is not a regular expression."""
    import regex  # unlike `re`, it has a time limit

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except regex.error as error:
        raise UserError(
            f"The answer pattern {pattern!r} is not a regular expression: {error}.",
            "for example '^A: (.*)$', whose group is the answer",
        ) from error
