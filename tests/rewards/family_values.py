"""Families of pairs: layout of numbers, and words around a value."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction

Pair = tuple[str, str, bool]
"""(gold, answer, whether they are the same)."""


def fraction(value: Fraction) -> str:
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def thousands(draw: random.Random) -> Iterator[Pair]:
    for _ in range(10):
        number = draw.randint(10**3, 10**9)
        grouped = f"{number:,}"
        for joint in (",", "{,}", "\\,", ",\\!", ",\\! "):
            yield str(number), grouped.replace(",", joint), True
        yield str(number), f"{number + 10 ** draw.randint(0, 2):,}", False
        yield str(number), grouped[:-1], False
        yield str(number), grouped.replace(",", "."), False


def numbers(draw: random.Random) -> Iterator[Pair]:
    for _ in range(12):
        value = Fraction(draw.randint(1, 99), draw.choice([2, 4, 5, 8, 20]))
        whole, rest = divmod(value, 1)
        decimal = f"{float(value)}"
        yield fraction(value), decimal, True
        yield decimal, f"{value.numerator}/{value.denominator}", value.denominator > 1
        if whole and rest:
            yield fraction(value), f"{whole}{fraction(rest)}", True
            yield fraction(value), f"{whole}\\cdot{fraction(rest)}", False
        yield fraction(value), fraction(value + Fraction(1, 40)), False
        yield fraction(value), f"{decimal}1", False
        yield fraction(value), fraction(-value), False
    for _ in range(6):
        digit, whole = draw.choice([1, 2, 4, 5, 7, 8]), draw.randint(1, 9)
        gold = fraction(whole + Fraction(digit, 9))
        for command in ("\\overline", "\\bar", "\\dot"):
            yield f"{whole}+0.{command}{{{digit}}}", gold, True
            yield f"{whole + 1}-0.{command}{{{9 - digit}}}", gold, True
            yield gold, f"{whole}+0.{command}{{{digit + 1}}}", False
            yield gold, f"{whole}+0.0{command}{{{digit}}}", False
        yield f"{whole - 1}+0.\\overline{{9}}", str(whole), True
        yield str(whole), f"{whole - 1}+0.9", False


def decimals(draw: random.Random) -> Iterator[Pair]:
    for _ in range(12):
        value = Fraction(draw.randint(1, 60), draw.choice([7, 11, 13, 17, 19]))
        if value.denominator == 1:
            continue
        for digits in (6, 14):
            cut = int(value * 10**digits)
            text = f"{cut // 10**digits}.{cut % 10**digits:0{digits}d}"
            wrong = f"{text[:-1]}{(int(text[-1]) + 5) % 10}"
            yield fraction(value), text, digits == 14
            yield fraction(value), wrong, False


def percents(draw: random.Random) -> Iterator[Pair]:
    for number in draw.sample(range(2, 100), 12):
        share = Fraction(number, 100)
        yield f"{number}\\%", str(number), True
        yield f"{number}\\%", fraction(share), True
        yield f"{float(share)}", f"{number}\\%", True
        yield f"{float(share)}", f"{float(share)}\\%", False
        yield f"{number}\\%", f"{number * 100}", False
        yield f"{number}\\%", f"{number / 10}\\%", False


def signs(draw: random.Random) -> Iterator[Pair]:
    for value in ("7", "\\frac{3}{4}", "x", "2\\pi", "\\sqrt{3}", "ab"):
        yield value, f"-{value}", False
        yield value, f"--{value}", False
        yield f"-{value}", f"-\\left({value}\\right)", True
        yield f"-{value}", f"+-{value}", False
        yield value, f"-(-{value})", True
        yield f"-{value}", f"\\text{{negative }}{value}", True
        yield value, f"\\text{{minus }}{value}", False


def approximations(draw: random.Random) -> Iterator[Pair]:
    exact = {"\\sqrt{2}": "1.41421356", "\\pi": "3.14159265", "\\sqrt{7}": "2.64575131",
             "\\frac{22}{7}": "3.14285714", "2\\sqrt{5}": "4.47213595"}  # fmt: skip
    for value, digits in exact.items():
        for places in (2, 3, 4):
            rounded = str(round(Fraction(digits) * 10**places))
            text = f"{rounded[:-places]}.{rounded[-places:]}"
            wrong = f"{text[:-1]}{(int(text[-1]) + 3) % 10}"
            yield value, f"{value} \\approx {text}", True
            yield text, f"x = {value} \\approx {text}", True
            yield text, f"x \\approx {text}", True
            yield value, f"{value} \\approx {wrong}", False
            yield wrong, f"{value} \\approx {wrong}", False
            yield value, text, False
            yield text, f"{text} \\approx {value}", False
    for number in draw.sample(range(2, 200), 8):
        yield str(number), f"{number} \\approx {number + 1}", False
        yield str(number), f"{number + 1} \\approx {number}", False
        yield str(number), f"\\text{{about }}{number}", True


def infinities(draw: random.Random) -> Iterator[Pair]:
    for answer in (
        "2\\infty",
        "\\infty+1",
        "\\infty-\\infty",
        "\\infty^2",
        "-\\infty",
        "\\frac{1}{\\infty}",
    ):
        yield "\\infty", answer, False
    yield "-\\infty", "-\\infty", True


def residues(draw: random.Random) -> Iterator[Pair]:
    for _ in range(10):
        modulus = draw.randint(3, 12)
        residue = draw.randrange(modulus)
        gold = f"x \\equiv {residue} \\pmod{{{modulus}}}"
        yield gold, f"x \\equiv {residue + modulus} \\pmod {{{modulus}}}", True
        yield gold, f"{residue - modulus} \\pmod{{{modulus}}}", True
        yield gold, f"x \\equiv {residue + 1} \\pmod{{{modulus}}}", False
        yield gold, f"x \\equiv {residue} \\pmod{{{modulus + 1}}}", False
        yield gold, str(residue), False


UNITS = {
    "m": ["meters", "metres"], "cm": ["centimeters"], "kg": ["kilograms"], "s": ["seconds"],
    "L": ["liters", "litres"], "h": ["hours"], "min": ["minutes"], "ft": ["feet"], "W": ["watts"],
    "mm": ["millimeters"], "Mm": ["megameters"], "mg": ["milligrams"], "Pa": ["pascals"],
}  # fmt: skip


def units(draw: random.Random) -> Iterator[Pair]:
    names = list(UNITS)
    for place, (symbol, spelled) in enumerate(UNITS.items()):
        number = draw.randint(2, 90)
        other = names[(place + 1) % len(names)]
        for name in (symbol, *spelled):
            yield f"{number}\\text{{ {symbol}}}", f"{number}\\text{{ {name}}}", True
            yield str(number), f"{number}\\,\\mathrm{{{name}}}", True
            yield f"{number}\\text{{ {other}}}", f"{number}\\text{{ {name}}}", False
            yield f"{number}\\text{{ {symbol}}}", f"{number}\\text{{ {name}}}^2", False
            yield f"{number}\\text{{ {symbol}}}", f"{number + 1}\\text{{ {name}}}", False
        yield f"{number}\\text{{ {symbol}/d}}", f"{number}\\text{{ {spelled[0]} per day}}", True
        squared = f"{number}\\text{{ square {spelled[0]}}}"
        yield f"{number}\\text{{ {symbol}}}^2", squared, symbol[-1] in "mt"
        yield str(number), squared, symbol[-1] in "mt"


def things(draw: random.Random) -> Iterator[Pair]:
    for noun in ("apples", "ways", "students", "marbles", "boxes", "people", "children", "pages",
                 "packs", "apps", "elves", "stitches", "groups", "wugs"):  # fmt: skip
        number = draw.randint(2, 90)
        yield str(number), f"{number} \\text{{ {noun}}}", True
        yield str(number), f"{number} {noun}", True
        yield f"{number} \\text{{ {noun}}}", str(number), True
        yield f"{number} \\text{{ {noun}}}", f"{number} \\text{{ oranges}}", True
        yield str(number), f"{number + 1} \\text{{ {noun}}}", False


def scales(draw: random.Random) -> Iterator[Pair]:
    for word, factor in {"hundred": 100, "thousand": 1000, "million": 10**6, "dozen": 12}.items():
        number = draw.randint(2, 90)
        yield str(number * factor), f"{number} \\text{{ {word}}}", True
        yield str(number * factor), f"{number} {word} dollars", True
        yield str(number), f"{number} \\text{{ {word}}}", False
        yield str(number * factor), f"{number + 1} \\text{{ {word}}}", False


def unknown_words(draw: random.Random) -> Iterator[Pair]:
    after = ("squared", "cubed", "thousandths", "ninths", "halves", "pairs", "k", "K", "M", "or so",
             "or more", "at most", "is wrong", "too many", "factorial", "mod", "gross", "x",
             "not", "maybe", "minus one", "times ten", "and a half", "tenths", "couples",
             "scores", "to the power")  # fmt: skip
    before = ("at least", "at most", "not", "cannot be:", "twice", "half of", "less than",
              "more than", "one more than", "the answer is not", "wrong answer:", "if",
              "the opposite is")  # fmt: skip
    for words in after:
        number = draw.randint(2, 90)
        yield str(number), f"{number}\\text{{ {words}}}", False
        yield f"{number}\\text{{ {words}}}", f"{number} \\text{{{words}}}", True
    for words in before:
        number = draw.randint(2, 90)
        yield str(number), f"\\text{{{words} }}{number}", False
        yield f"\\text{{{words} }}{number}", f"\\text{{{words}}}\\ {number}", True
        if not words.endswith((":", "not")):
            yield f"\\text{{{words} }}{number}", f"\\text{{{words} }}{number}.0", True
            yield f"\\text{{{words} }}{number}", f"\\text{{{words} }}{number + 1}.0", False
            yield f"\\text{{{words} }}{number}", f"{number}\\text{{ {words}}}", False


def names(draw: random.Random) -> Iterator[Pair]:
    for name in ("x", "n", "\\theta", "x_1", "f(x)", "P(A)", "AB", "\\angle ABC", "\\text{Area}",
                 "\\text{the total cost}", "a_{10}", "(x,y)", "\\text{Volume}"):  # fmt: skip
        value = "(2,5)" if name[0] == "(" else str(draw.randint(2, 90))
        yield value, f"{name} = {value}", True
        yield f"{name} = {value}", value, True
        yield f"{name} = {value}", f"z = {value}", False
        yield value, f"{name} = z = {value}", False
        yield value, f"{name} \\ne {value}", False
    for left in (
        "x+y",
        "2x",
        "x^2",
        "-x",
        "\\sin x",
        "xy",
        "x-1",
        "\\text{nothing}",
        "\\text{not}",
    ):
        value = str(draw.randint(2, 90))
        yield value, f"{left} = {value}", False


def phrases(draw: random.Random) -> Iterator[Pair]:
    for phrase in ("The answer is", "Answer:", "So the total area is", "Hence the rate equals",
                   "is", "The final answer is:", "The sum of the roots is"):  # fmt: skip
        value = draw.choice(["7", "\\frac{3}{4}", "2\\sqrt{3}", "(1,2)"])
        yield value, f"\\text{{{phrase} }}{value}", True
        yield value, f"\\text{{{phrase} }}{value}1", False


def texts(draw: random.Random) -> Iterator[Pair]:
    words = ["Monday", "Evelyn", "yes", "no", "ellipse", "even", "odd", "increasing", "Team Blue"]
    for place, word in enumerate(words):
        yield f"\\text{{{word}}}", word, True
        yield f"\\text{{{word}}}", f"\\textbf{{{word.lower()}.}}", True
        yield f"\\text{{{word}}}", f"-\\text{{{word}}}", False
        yield f"\\text{{{word}}}", f"\\text{{not {word}}}", False
        yield f"\\text{{{word}}}", f"\\text{{{words[place - 1]}}}", False
    for letter, other in zip("xynABk", "yxmBAK", strict=True):
        yield letter, f"\\text{{{letter}}}", True
        yield letter, f"\\text{{{other}}}", False
        yield letter, f"-\\text{{{letter}}}", False
        yield letter, f"{letter}!", False


FAMILIES: dict[str, Callable[[random.Random], Iterator[Pair]]] = {
    "thousands": thousands,
    "number": numbers,
    "decimal": decimals,
    "percent": percents,
    "sign": signs,
    "approximation": approximations,
    "infinity": infinities,
    "residue": residues,
    "unit": units,
    "thing": things,
    "scale": scales,
    "word": unknown_words,
    "name": names,
    "phrase": phrases,
    "text": texts,
}
"""The pairs that each rule of docs/verifier.md decides."""
