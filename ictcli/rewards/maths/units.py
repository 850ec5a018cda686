"""Normalize units of measurement, and split answers into value and unit."""

import re
import unicodedata
from functools import lru_cache

import regex  # knows the letters of all scripts

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.nodes import Scalar
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.vocabulary import (
    AFTER,
    COMPARISONS,
    CURRENCIES,
    HEDGES,
    LENGTHS,
    NEGATIONS,
    NUMBERS,
    OPERATIONS,
    PLAIN,
    POWERS,
    PREFIXED,
    SCALES,
    SPELLED,
    SYMBOLS,
    WITHIN,
    WORD_PREFIXES,
)

_CHANGING = NEGATIONS | COMPARISONS | OPERATIONS
_WORDS = {word: unit for unit, words in SPELLED.items() for word in words.split()}
_SPELLINGS = _WORDS | {
    prefix + word: sign + {"byte": "B", "tesla": "T"}.get(_WORDS[word], _WORDS[word])
    for prefix, sign in WORD_PREFIXES.items()
    for word in PREFIXED
}

_POWER_SIGN = r"\^\s*\{?\s*-?\d\s*\}?"
_MARKED = rf"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}"
_TEXT_TAIL = re.compile(
    rf"^(.*?[^\s+\-*/^_=<>{{(\[,])\s*(?:\\cdot)?\s*"
    rf"((?:/\s*)?{_MARKED}(?:\s*(?:{_POWER_SIGN}|/|\\cdot|{_MARKED}))*)$"
)
_LETTER = r"[\p{L}\p{M}]"
_PLAIN_TAIL = regex.compile(
    rf"^(.*?[\d}})\]])(\s*)({_LETTER}[\p{{L}}\p{{M}}.]*"
    rf"(?:(?:[\s/·-]|{_POWER_SIGN})+[\p{{L}}\p{{M}}.]+)*(?:{_POWER_SIGN})?)$"
)
_ABROAD = regex.compile(
    rf"(?:{_LETTER}{{3,}}|[\p{{Han}}\p{{Hangul}}\p{{Hiragana}}\p{{Katakana}}]{{1,12}})"
)
_HEAD = re.compile(rf"^(-?\s*){OPEN}([^{OPEN}{CLOSE}]*){CLOSE}\s*(?=[-\d.(\\])(.*)$")
_WORDS_HEAD = re.compile(
    rf"{OPEN}\s*((?:[a-z]{{2}}|[A-Za-z][a-z]{{2}}|[A-Za-z]+ )[^{CLOSE}]*?)\s*{CLOSE}\s*(-?[\d.,]+)"
)
_MONEY = re.compile(r"^(-?\s*)([£€¥₹]|USD|EUR|GBP|INR|Rs\.?)\s*(?=[\d.])(.*)$")
_NOUN = re.compile(r"(?=.*[aeiouy].|.*s$)[A-Za-z][A-Za-z']*[a-z]{2}|[A-Z]+s")
_SMALL = frozenset(("of", "in", "on", "at", "the", "a", "an", "as", "for", "all"))
"""Words that may stand beside a noun."""
_SIGN = re.compile(r"\s*(?:\^\s*\{?\s*(-?\d)\s*\}?|(/)|\\cdot|[·*]|([^\s/·*^\\]+)|(.))", re.S)


def singulars(word: str) -> list[str]:
    """Return the possible singular forms of a lower-case word, the word itself first."""
    cut = [word[:-1]] if word[-1:] == "s" and word[-2:] != "ss" else []
    if word.endswith("es"):
        cut.append(word[:-2])
    return [word, *cut, *([word[:-3] + "y"] if word.endswith("ies") else [])]


def unit_name(word: str) -> str | None:
    """Return the canonical name of the unit that a word or symbol names, or None."""
    if word in SYMBOLS:
        return SYMBOLS[word]
    if len(word) > 2 and word[-1] == "s" and word[:-1] in SYMBOLS:  # kgs
        return SYMBOLS[word[:-1]]
    small = word.lower()
    return next((_SPELLINGS[name] for name in singulars(small) if name in _SPELLINGS), None)


def changes_value(word: str) -> bool:
    """Return whether a word changes a value: a number word, negation, comparison or operation."""
    small = word.lower()
    listed = small in _CHANGING or any(name in NUMBERS for name in singulars(small))
    return listed or small.endswith("n't")


def _says_nothing(word: str) -> bool:
    """Return whether a word after a number is (part of) a noun and does not change the value."""
    small = word.lower()
    if not (_NOUN.fullmatch(word) or small in _SMALL or _is_of_another_script(word)):
        return False
    parts = unicodedata.normalize("NFD", small)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    scales = bare in AFTER or small.endswith("fold") or any(part in small for part in WITHIN)
    scales = scales or (small.endswith("ly") and changes_value(small[:-2]))
    return not scales and not changes_value(word)


def _is_of_another_script(word: str) -> bool:
    """Return whether a word has non-ASCII letters, except styled ones like full-width letters."""
    styled = any(unicodedata.decomposition(letter)[:1] == "<" for letter in word)
    return not word.isascii() and not styled and bool(_ABROAD.fullmatch(word))


@lru_cache(maxsize=4096)
def canonical(words: str, nouns: bool = True) -> str | None:
    """Return the canonical name of the unit in a phrase, as in `m s^-2`; empty if it has no unit.
    None if a word changes the value or, without `nouns`, names no unit."""
    text = words.replace(OPEN, " ").replace(CLOSE, " ").replace("per cent", "percent")
    text = re.sub("pounds? sterling", "sterling", text).replace("US dollar", "dollar")
    text = text.replace("(s)", "s").strip(" ,;:!")
    if text[:1] == "(" and text[-1:] == ")":
        text = text[1:-1].strip()
    text = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", " ", text)
    factors = _factors(text, nouns)
    if factors is None:
        return None
    parts = [name if power == 1 else f"{name}^{power}" for name, power in sorted(factors.items())]
    return " ".join(parts)


def _factors(text: str, nouns: bool) -> dict[str, int] | None:
    """Return the powers of a unit's factors by name; None if a word changes the value."""
    factors: dict[str, int] = {}
    last, power, sign, said, noun_needed = "", 1, 1, False, False
    for match in _SIGN.finditer(text):
        exponent, slash, token, other = match.groups()
        word = (token or "").rstrip(".,")
        small = word.lower()
        if other or (exponent and (not last or int(exponent) == 0)):
            return None
        if exponent:
            factors[last] += (int(exponent) - 1) * (1 if factors[last] > 0 else -1)
        elif slash or small == "per" or (small in ("a", "an") and last):
            sign, last, power = -1, "", 1
        elif small in POWERS and small.endswith("ed"):
            if not last:
                return None
            factors[last] *= POWERS[small]
        elif small in POWERS:
            power = POWERS[small]
        elif nouns and small in ("more", "fewer", "less"):  # 5 more apples
            noun_needed = True
            continue
        elif word and (name := unit_name(word)) and (power != 1 or not (said and small in _SMALL)):
            if "^" in name or "/" in name:
                factors |= _factors(name, nouns) or {}
                name = ""
            else:
                factors[name] = factors.get(name, 0) + sign * power
            last, power, sign = name, 1, 1
        elif word and not (nouns and _says_nothing(word)):
            return None
        elif word and small not in _SMALL:
            last, power, sign = "", 1, 1
        said, noun_needed = said or bool(word), noun_needed and not word
    factors = {name: power for name, power in factors.items() if power}
    if power != 1 or sign < 0 or noun_needed:
        return None
    for name, power in factors.items():  # up to 3: lengths, and times below a slash
        cubed = name in LENGTHS or (name in ("s", "min", "h") and power < 0)
        if abs(power) > (3 if cubed else 1):
            return None
    return factors


def split_unit(text: str) -> tuple[str, str | None, str]:
    """Split normalized LaTeX into (value, unit or None, noun). Words that change the value stay in
    it, except for scales: `5 million` has the value 5000000."""
    unit: str | None = None
    if money := _MONEY.match(text):
        text, unit = money[1] + money[3], CURRENCIES.get(money[2]) or SYMBOLS[money[2]]
    elif head := _HEAD.match(text):
        name = canonical(head[2])
        if name in CURRENCIES.values():
            text, unit = head[1] + head[3], name
        elif head[2].strip().lower() in HEDGES:
            text = head[1] + head[3]
    if text[-1:] in CURRENCIES:
        return text[:-1].strip(), _joined(unit, CURRENCIES[text[-1:]]), ""
    tail = _TEXT_TAIL.match(text)
    if tail:
        value, words = tail[1], tail[2]
    elif (plain := _PLAIN_TAIL.match(text)) and _in_plain_letters(plain[2], plain[3]):
        value, words = plain[1], plain[3]
    else:
        return text.strip(), unit, ""
    words = words.replace(OPEN, " ").replace(CLOSE, " ").strip()
    scale = 1
    while first := words.split(" ", 1)[0].lower():
        first = first if first.isascii() else first[0]
        factor = next((SCALES[name] for name in singulars(first) if name in SCALES), None)
        if factor is None:
            break
        scale, words = scale * factor, words[len(first) :].strip()
    name = canonical(words, nouns=not re.search(r"(?<![\\A-Za-z])[A-Za-z]", value))
    if name is None:
        return text.strip(), unit, ""
    value = value.strip()
    if scale > 1:
        known_value = number(value)
        value = f"({value})\\cdot {scale}" if known_value is None else str(known_value * scale)
    return (value, _joined(unit, name), "") if name else (value, unit, words.lower().rstrip("s"))


def _in_plain_letters(space: str, tail: str) -> bool:
    """Return whether the letters after a number are a unit or words, and not a product of unknowns:
    symbols in PLAIN, or words after a space (letters of a product are mostly in order)."""
    runs: list[str] = regex.findall(rf"{_LETTER}+", tail)
    return all(
        run in PLAIN
        or (space and run.isascii() and (run in _SMALL or _is_spelled(run)))
        or (_is_of_another_script(run) and (space or not run[0].islower()))
        for run in runs
    )


def _is_spelled(run: str) -> bool:
    small = run.lower()
    in_order = list(small) == sorted(set(small))
    return len(run) > 2 and (bool(set("eio") & set(small)) or not in_order or run[:-1].isupper())


def unknown_words(text: str) -> tuple[str, str] | None:
    """Return (value, words) of a value next to `\\text{}` that is no unit; None for other texts."""
    if head := _WORDS_HEAD.fullmatch(text):
        return head[2], f"{head[1][:2].lower()}{head[1][2:]} _"
    tail = _TEXT_TAIL.match(text)
    return (tail[1].strip(), tail[2].replace(OPEN, " ").replace(CLOSE, " ")) if tail else None


def _joined(first: str | None, second: str) -> str:
    """Return the product of the units before and after a value, as in `$ 5 per hour`."""
    if first is None or first == second:
        return second
    return " ".join(sorted([first, *second.split()]))


def agree(gold: Scalar, answer: Scalar) -> bool:
    """Return whether two answers have the same unit, or one has neither unit nor noun. A unit named
    `unit` stands for any length with its power; words after `?` must be the same."""
    first, second = gold.unit or "", answer.unit or ""
    if first == second:
        return True
    if "?" in first[:1] + second[:1]:
        return False
    if not first or not second:
        return not (answer.noun if first else gold.noun)
    (name, _, power), (other, _, power_of_other) = first.partition("^"), second.partition("^")
    return power == power_of_other and "unit" in (name, other) and {name, other} <= LENGTHS
