"""Units of measurement in one spelling, and answers split into value and unit."""

import re

from ictcli.rewards.maths.latex import CLOSE, OPEN, word_list
from ictcli.rewards.maths.numbers import number

_SPELLINGS = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "dm": "decimeter",
    "m": "meter metre", "km": "kilometer kilometre", "in": "inch inche", "ft": "foot feet",
    "yd": "yard", "mi": "mile", "s": "second sec", "min": "minute", "h": "hour hr", "d": "day",
    "week": "wk", "month": "mo", "year": "yr", "g": "gram gm", "kg": "kilogram kilo",
    "mg": "milligram", "lb": "pound lbs", "oz": "ounce", "ton": "tonne", "l": "liter litre",
    "ml": "milliliter millilitre", "gal": "gallon", "qt": "quart", "pt": "pint", "n": "newton",
    "j": "joule", "w": "watt", "hz": "hertz", "v": "volt", "pa": "pascal", "k": "kelvin",
    "kj": "kilojoule", "kw": "kilowatt", "mol": "mole", "nm": "nanometer", "rad": "radian",
    "degree": "deg", "dollar": "usd buck", "cent": "", "euro": "eur", "rupee": "r rs inr",
    "people": "person", "child": "children", "man": "men", "woman": "women", "mouse": "mice",
    "half": "halves", "%": "percent percentage", "pound sterling": "gbp",
}  # fmt: skip
_COMPOUND = {
    "mph": "mi/h", "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "cc": "cm^3", "sqft": "ft^2",
}  # fmt: skip
_NOTHING = word_list("unit of the a an total approximately about exactly only each left altogether")
_SCALE = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "dozen": 12,
}  # fmt: skip
_NO_UNIT = word_list(
    "or and not is are maybe no wrong times plus minus half halves third thirds quarter quarters "
    "factorial more less to if than another but divided over by where when for with mod"
)
"""Words after a number that are not what it counts."""
_POWER = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_SYMBOLS = {
    "¢": "cent", "£": "pound sterling", "€": "euro", "¥": "yen", "$": "dollar", "₹": "rupee",
}  # fmt: skip
_CANONICAL = _SYMBOLS | {
    word: unit for unit, words in _SPELLINGS.items() for word in [unit, *words.split()]
}

_TEXT_TAIL = re.compile(
    rf"^(.*?[^\s+\-*/^_=<>{{(\[,]|)\s*(?:\\cdot)?\s*"
    rf"({OPEN}[^{OPEN}{CLOSE}]*{CLOSE}(?:\s*(?:\^\s*\{{?-?\d\}}?|/|\\cdot|{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}))*)$"
)
_PLAIN_TAIL = re.compile(
    r"^(.*?[\d})\]])\s*((?:\s|(?<=[\d}]))[A-Za-z][A-Za-z.]+(?:[\s/^·-]+[A-Za-z0-9.]+)*\^?\{?\d?\}?)$"
)
_HEAD = re.compile(rf"^(-?\s*){OPEN}([^{OPEN}{CLOSE}]*){CLOSE}\s*(?=[-\d.(\\])(.*)$")
_MONEY = re.compile(r"^(-?\s*)([£€¥₹])\s*(.*)$")
_CURRENCIES = set(_SYMBOLS.values())


def canonical(words: str) -> str:
    """A unit in one spelling: singular, abbreviated, powers as `^2`, `per` as `/`; empty if the
    words name no unit."""
    text = words.replace(OPEN, " ").replace(CLOSE, " ").lower().replace("per cent", "percent")
    text = re.sub(r"\s*\^\s*\{?\s*-(\d)\s*\}?", r"^~\1 ", text)
    text = re.sub(r"\\cdot|[·*]", " ", text).replace("-", " ").replace("~", "-")
    text = re.sub(r"\s*\^\s*\{?\s*(-?\d)\s*\}?", r"^\1 ", text)
    text = re.sub(r"\b([a-z]+)\^-(\d)", r"/ \1^\2", text).replace("^1", "")
    text = re.sub(r"\bper\b|/", " / ", text)
    text = re.sub(r"\bin (?=[a-z])", " ", text)
    out: list[str] = []
    power = ""
    for raw in text.split():
        word = raw.strip(".,;:!?()")
        word, _, exponent = word.partition("^")
        name = _singular(word)
        if word in _POWER and out and word.endswith("ed"):
            out[-1] += f"^{_POWER[word]}"
        elif word in _POWER:
            power = _POWER[word]
        elif not word:
            if exponent and out:
                out[-1] += f"^{exponent}"
        elif word == "/":
            out.append("/")
        elif name not in _NOTHING:
            exponent = power or exponent
            out.append(_COMPOUND.get(name, name) + (f"^{exponent}" if exponent else ""))
            power = ""
        elif name == "unit":
            power = ""
    return " ".join(out).replace("/ ", "/").replace(" /", "/").rstrip("/ ")


def _singular(word: str) -> str:
    if word in _CANONICAL:
        return _CANONICAL[word]
    for ending, instead in (("ies", "y"), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) > 2 and not word.endswith("ss"):
            single = word[: -len(ending)] + instead
            return _CANONICAL.get(single, single)
    return word


def known(words: str) -> bool:
    """Whether every word is a unit of measurement known here."""
    parts = re.findall(r"[a-z]+", words.lower())
    return bool(parts) and all(
        _singular(part) in _SPELLINGS or part in _POWER or part in _COMPOUND or part == "per"
        for part in parts
    )


def split_unit(text: str) -> tuple[str, str | None]:
    """(value, unit) of a tidy answer: None without a unit, empty if the words after the value name
    none. Scales are multiplied in: `5 million` has the value 5000000."""
    unit: str | None = None
    if money := _MONEY.match(text):
        text, unit = money[1] + money[3], _SYMBOLS[money[2]]
    elif head := _HEAD.match(text):
        name = canonical(head[2])
        if name in _CURRENCIES or not name:
            text, unit = head[1] + head[3], name or None
    if text[-1:] in _SYMBOLS:
        return text[:-1].strip(), _joined(unit, _SYMBOLS[text[-1:]])
    if tail := _TEXT_TAIL.match(text):
        is_unit = bool(tail[1].strip()) and measures(tail[2])
    else:
        tail = _PLAIN_TAIL.match(text)
        is_unit = tail is not None and _is_unit(tail[1], tail[2])
    if not tail or not is_unit:
        return text.strip(), unit
    value, words = tail[1].strip(), tail[2].replace(OPEN, " ").replace(CLOSE, " ")
    first, _, rest = words.strip().partition(" ")
    if scale := _SCALE.get(_singular(first.lower())):
        known_value = number(value)
        value = f"({value})\\cdot {scale}" if known_value is None else str(known_value * scale)
        if not rest:
            return value, unit
        words = rest
    return value, _joined(unit, canonical(words))


def measures(words: str) -> bool:
    """Whether the words after a number may be a unit: no digits, operators, or other answers."""
    bare = re.sub(r"\^\s*\{?-?\d\}?|\\cdot", " ", words.replace(OPEN, " ").replace(CLOSE, " "))
    if re.search(r"[\d=+*√^;?\\]| - ", bare):
        return False
    runs = [run.lower() for run in re.findall(r"[^\W\d_]+", bare)]
    if not runs or any(run in _NO_UNIT for run in runs):
        return False
    return all(len(run) > 1 or _singular(run) in _SPELLINGS or run in "ackf" for run in runs)


def _is_unit(before: str, tail: str) -> bool:
    """Whether letters after a number are a unit rather than a product of symbols."""
    words = re.findall(r"[A-Za-z]+", tail)
    if "\\" in before[-1:] or not measures(tail):
        return False
    spaced = tail[:1].isspace()
    return (known(tail) and (spaced or len(words[0]) > 1)) or (
        spaced and all(len(word) > 3 or word in ("per", "of", "in", "km") for word in words)
    )


def _joined(first: str | None, second: str) -> str:
    return second if first is None or first == second else f"{first} {second}".strip()


def agree(gold: str | None, answer: str | None) -> bool:
    """Whether two units are compatible: equal, or one is missing or less specific."""
    if not gold or not answer or gold == answer:
        return True
    if any(sign in gold + answer for sign in "^/"):
        return False
    few, many = sorted((set(gold.split()), set(answer.split())), key=len)
    return few < many and not (few | many) & set(_SPELLINGS)
