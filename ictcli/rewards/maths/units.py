"""Units of measurement in one spelling, and answers split into value and unit."""

import re
from functools import lru_cache

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.vocabulary import (
    ADJECTIVES,
    COLOURS,
    COUNTED,
    CURRENCIES,
    FILLERS,
    HEDGES,
    IRREGULAR,
    LENGTHS,
    MASS,
    PLAIN,
    POWERS,
    PREFIXED,
    SCALES,
    SHORT,
    SPELLED,
    SYMBOLS,
    WORD_PREFIXES,
)

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
_PLAIN_TAIL = re.compile(
    rf"^(.*?[\d}})\]])(\s*)([A-Za-z][A-Za-z.]*(?:(?:[\s/·-]|{_POWER_SIGN})+[A-Za-z.]+)*(?:{_POWER_SIGN})?)$"
)
_HEAD = re.compile(rf"^(-?\s*){OPEN}([^{OPEN}{CLOSE}]*){CLOSE}\s*(?=[-\d.(\\])(.*)$")
_WORDS_HEAD = re.compile(
    rf"{OPEN}\s*((?:[a-z]{{2}}|[A-Za-z][a-z]{{2}}|[A-Za-z]+ )[^{CLOSE}]*?)\s*{CLOSE}\s*(-?[\d.,]+)"
)
_MONEY = re.compile(r"^(-?\s*)([£€¥₹]|USD|EUR|GBP|INR|Rs\.?)\s*(?=[\d.])(.*)$")
_SIGN = re.compile(r"\s*(?:\^\s*\{?\s*(-?\d)\s*\}?|(/)|\\cdot|[·*]|([^\s/·*^\\]+)|(.))", re.S)


def singulars(word: str) -> list[str]:
    """The singular forms that a word in small letters may have, itself first."""
    if word in IRREGULAR:
        return [IRREGULAR[word]]
    cut = [word[:-1]] if word[-1:] == "s" and word[-2:] != "ss" else []
    if word.endswith("es"):
        cut.append(word[:-2])
    return [word, *cut, *([word[:-3] + "y"] if word.endswith("ies") else [])]


def unit_name(word: str) -> str | None:
    """The unit that a word or symbol names, in one spelling; None if it names none."""
    if word in SYMBOLS:
        return SYMBOLS[word]
    small = word.lower()
    return next((_SPELLINGS[name] for name in singulars(small) if name in _SPELLINGS), None)


def _counted(word: str) -> str | None:
    return next((name for name in singulars(word.lower()) if name in COUNTED), None)


@lru_cache(maxsize=4096)
def canonical(words: str) -> str | None:
    """A unit in one spelling, each factor with its power; None if a word is in no list, empty for
    words that say nothing (`in total`)."""
    text = words.replace(OPEN, " ").replace(CLOSE, " ").replace("per cent", "percent")
    text = re.sub("pounds? sterling", "sterling", text).replace("US dollar", "dollar")
    text = text.replace("(s)", "s").strip(" ,;:!")
    if text[:1] == "(" and text[-1:] == ")":
        text = text[1:-1].strip()
    text = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", " ", text)
    for filler in FILLERS:
        if text.lower() == filler or text.lower().endswith(" " + filler):
            text = text[: -len(filler)].rstrip(" ,")
            break
    factors = _factors(text)
    if factors is None:
        return None
    parts = [name if power == 1 else f"{name}^{power}" for name, power in sorted(factors.items())]
    return " ".join(parts)


def _factors(text: str) -> dict[str, int] | None:
    """The factors of a unit with their powers; None if a word is in no list."""
    factors: dict[str, int] = {}
    last, power, sign, noun_needed = "", 1, 1, False
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
            factors[last] *= int(POWERS[small])
        elif small in POWERS:
            power = int(POWERS[small])
        elif small == "of" and last:
            noun_needed = True
        elif word and (name := unit_name(word) or _counted(word)):
            if "^" in name or "/" in name:
                factors |= _factors(name) or {}
                name = ""
            else:
                factors[name] = factors.get(name, 0) + sign * power
            last, power, sign, noun_needed = name, 1, 1, False
        elif small in MASS:
            factors[small], last, noun_needed = sign, small, False
        elif small in ADJECTIVES:
            noun_needed = True
        elif small in COLOURS:
            factors[small], noun_needed = 1, True
        elif word:
            return None
    factors = {name: power for name, power in factors.items() if power}
    if noun_needed or power != 1 or sign < 0:
        return None
    return factors if all(_has_power(*factor) for factor in factors.items()) else None


def _has_power(name: str, power: int) -> bool:
    """Whether a unit may have this power: lengths up to 3, times below a slash."""
    if name in LENGTHS:
        return abs(power) <= 3
    return abs(power) == 1 or (name in ("s", "min", "h") and -3 <= power < 0)


def split_unit(text: str) -> tuple[str, str | None]:
    """(value, unit) of a tidy answer; None without a unit. Words that name no unit stay with the
    value. Scales are multiplied in: `5 million` has the value 5000000."""
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
        return text[:-1].strip(), _joined(unit, CURRENCIES[text[-1:]])
    tail = _TEXT_TAIL.match(text)
    if tail:
        value, words = tail[1], tail[2]
    elif (plain := _PLAIN_TAIL.match(text)) and _in_plain_letters(plain[2], plain[3]):
        value, words = plain[1], plain[3]
    else:
        return text.strip(), unit
    words = words.replace(OPEN, " ").replace(CLOSE, " ").strip()
    scale = 1
    while (first := words.split(" ", 1)[0].lower()) and (factor := _scale(first)):
        scale, words = scale * factor, words[len(first) :].strip()
    name = canonical(words)
    if name is None:
        return text.strip(), unit
    value = value.strip()
    if scale > 1:
        known_value = number(value)
        value = f"({value})\\cdot {scale}" if known_value is None else str(known_value * scale)
    return value, _joined(unit, name) if name else unit


def _scale(word: str) -> int | None:
    return next((SCALES[name] for name in singulars(word) if name in SCALES), None)


def _in_plain_letters(space: str, tail: str) -> bool:
    """Whether letters after a number are a unit rather than a product of unknowns: spelled words
    after a space, or symbols in PLAIN."""
    words = re.findall(r"[A-Za-z]+", tail)
    return all(
        word in PLAIN or (bool(space) and (len(word) > 3 or word.lower() in SHORT))
        for word in words
    )


def unknown_words(text: str) -> tuple[str, str] | None:
    """(value, words) of a number behind marked words, or a value before some, that are no unit."""
    if head := _WORDS_HEAD.fullmatch(text):
        return head[2], f"{head[1][:2].lower()}{head[1][2:]} _"
    tail = _TEXT_TAIL.match(text)
    return (tail[1].strip(), tail[2].replace(OPEN, " ").replace(CLOSE, " ")) if tail else None


def _joined(first: str | None, second: str) -> str:
    """The unit before a value with the one after it: `$ 5 per hour`."""
    if first is None or first == second:
        return second
    return " ".join(sorted([first, *second.split()]))


def agree(gold: str | None, answer: str | None) -> bool:
    """Whether two units are the same, or a known one is left out on one side. `unit` stands for any
    length of its power; what starts with `?` holds words that are in no list."""
    if gold == answer:
        return True
    if "?" in (gold or "")[:1] + (answer or "")[:1]:
        return False
    if not gold or not answer:
        return True
    (name, _, power), (other, _, power_of_other) = gold.partition("^"), answer.partition("^")
    return power == power_of_other and "unit" in (name, other) and {name, other} <= LENGTHS
