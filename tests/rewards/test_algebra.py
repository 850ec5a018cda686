"""The reader of expressions against values computed beside it, in float64 and Python's integers."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from operator import add, mul, sub
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.latex import tidy
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.symbols import equal
from tests.cases import FEW

X, Y = 1.75, 0.6
Written = tuple[str, float, int]
"""LaTeX, its value at x = X and y = Y, and how it binds: 0 sum, 1 product, 2 power, 3 atom."""


LETTERS = st.sampled_from([("x", X, 3), ("y", Y, 3), ("\\pi ", math.pi, 3), ("e", math.e, 3)])
WHOLE = st.integers(0, 30).map(lambda n: (str(n), float(n), 3))
DECIMAL = st.integers(1, 999).map(lambda n: (f"{n / 100:.2f}", n / 100, 3))


def divided(above: float, below: float) -> float:
    return above / below if abs(below) > 1e-6 else math.nan


WAYS: list[tuple[str, tuple[int, ...], int, Callable[..., float]]] = [
    *((f"{{}} {sign} {{}}", (0, 1), 0, of) for sign, of in (("+", add), ("-", sub))),
    *((f"{{}}{sign} {{}}", (1, 2), 1, mul) for sign in ("\\cdot", "*", "\\times")),
    ("{}{}", (1, 2), 1, mul),
    *((f"{of}{{{{{{}}}}}}{{{{{{}}}}}}", (0, 0), 2, divided) for of in ("\\frac", "\\dfrac")),
    ("{}/({})", (2, 0), 1, divided),
    *((f"{{}}^{{{{{n}}}}}", (3,), 2, partial(lambda n, base: base**n, n)) for n in (1, 2, 3)),
    ("\\sqrt{{{}}}", (0,), 2, math.sqrt),
    *((f"\\{of.__name__}({{}})", (0,), 2, of) for of in (math.sin, math.cos)),
    ("\\ln({})", (0,), 2, math.log),
    ("|{}|", (0,), 2, math.fabs),
    ("\\lfloor {} \\rfloor", (0,), 2, math.floor),
]
"""Forms, how each part must bind to stand in them without brackets, how they bind, and what they
compute. A fraction is no base of a power without brackets."""


def combined(given: tuple[Any, Written, Written]) -> Written:
    (form, least, binds, compute), *parts = given
    texts = [
        text if own >= needed else f"\\left({text}\\right)"
        for (text, _, own), needed in zip(parts, least, strict=False)
    ]
    if form == "{}{}" and (texts[1][0].isdigit() or texts[0][-1].isdigit()):
        form = "{}\\cdot {}"  # x(2) has two readings
    if form == "|{}|" and "|" in texts[0]:
        form = "\\sqrt{{({})^2}}"
    try:
        value = compute(*(part[1] for part in parts[: len(least)]))
    except (ValueError, OverflowError):
        value = math.nan
    return form.format(*texts), value, binds


written = st.recursive(
    WHOLE | DECIMAL | LETTERS,
    lambda inner: st.tuples(st.sampled_from(WAYS), inner, inner).map(combined),
    max_leaves=7,
)


@given(written)
def test_what_is_read_has_the_value_that_was_written(expression: Written) -> None:
    """Only what has two readings, or is too large, or divides by zero, is not read."""
    text, value, _ = expression
    assume(math.isfinite(value) and abs(value) < 1e9 and text.count("floor") < 2)
    try:
        found = algebra.read(tidy(text))
    except UnreadableError as error:
        assert any(word in str(error) for word in ("readings", "zero", "large", "after"))
        return
    point = {one: X if one.name == "x" else Y for one in found.free_symbols}
    read = complex(found.subs(point).evalf(30))
    assume(not math.isnan(read.real))  # ln(sin(pi)) has a value in float64 only
    if "floor" not in text:
        assert read == pytest.approx(value, rel=1e-6, abs=1e-6)
    else:  # a value beside a whole number may fall to either side in float64
        assert abs(read - value) < 1e6


@pytest.mark.parametrize(
    "text",
    ["1/2x3", "a/bc", "2 3", "x2", "x^y^z", "n!!", r"\sin x/2", r"\sin(x)^2", "x)", "(x", "", "1/0",
     r"\frac{1}{0}", "9^{9^{9^{9}}}", "(10^9)!", r"\foo", "x'y''_", "+", "a_", "^2", "x=5"],
)  # fmt: skip
def test_what_has_no_single_reading_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        algebra.read(tidy(text) or "")


@given(
    st.fractions(min_value=-1000, max_value=1000, max_denominator=500),
    st.decimals(min_value=-(10**6), max_value=10**6, places=4),
)
def test_every_way_to_write_a_number_is_that_number(value: Fraction, decimal: Any) -> None:
    n, d = value.numerator, value.denominator
    texts = [f"{n}/{d}", f"\\frac{{{n}}}{{{d}}}", f"-\\dfrac{{{-n}}}{{{d}}}"]
    if value > 0 and n % d:
        texts += [f"{n // d}\\frac{{{n % d}}}{{{d}}}", f"{n // d} {n % d}/{d}"]
    assert {number(tidy(text)) for text in texts} == {value}
    assert number(tidy(f"{decimal:,}")) == Fraction(decimal)


@FEW
@given(st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_expressions_that_part_at_any_point_are_not_equal(turn: int, width: int) -> None:
    beyond = f"x-({turn})"
    assert equal(f"|{beyond}|", f"|({turn})-x|")
    assert not equal(f"|{beyond}|", beyond) and not equal(f"|{beyond}|", f"-({beyond})")
    assert not equal(f"\\min(x,{turn})", "x") and not equal(f"\\max(x,{turn})", "x")
    bump = f"\\max(0,1-|{beyond}|\\cdot {width})"
    assert not equal(f"x+{bump}", "x") and equal(f"x+{bump}", f"{bump}+x")


@FEW
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=4), st.integers(0, 10**6))
def test_a_root_or_logarithm_is_no_product_or_sum_of_others_whatever_the_seed(
    turns: list[int], seed: int
) -> None:
    factors = [f"({letter}-({turn}))" for letter, turn in zip("uvwz", turns, strict=False)]
    product = "".join(factors)
    for whole, parts in (
        (f"\\sqrt{{{product}}}", "".join(f"\\sqrt{{{factor}}}" for factor in factors)),
        (f"\\ln({product})", "+".join(f"\\ln{factor}" for factor in factors)),
        (f"\\sqrt{{{factors[0]}^2{factors[1]}}}", f"{factors[0]}\\sqrt{{{factors[1]}}}"),
    ):
        assert not equal(f"{whole}+{seed}", f"{parts}+{seed}")
        assert equal(f"{whole}+{seed}", f"{seed}+{whole}")


def terms() -> st.SearchStrategy[str]:
    """Terms that are not 0, but are at every whole number, outside an interval, or to many
    digits."""
    large, place = st.integers(1, 10**30), st.integers(2, 500)
    tiny = st.tuples(st.sampled_from(["10", "e", "\\pi"]), st.integers(10, 100))
    return st.one_of(
        large.map(lambda n: f"\\sin({n}\\pi x)"),
        large.map(lambda n: f"(1-\\cos(2\\pi\\cdot {n}x))"),
        tiny.map(lambda each: f"{each[0]}^{{-{each[1]}}}"),
        tiny.map(lambda each: f"\\sin({each[0]}^{{-{each[1]}}}x)"),
        place.map(lambda n: f"\\max(0,1-|x-({n})|)(2x-2({n})-1)(2x-2({n})+1)"),
    )


@FEW
@given(st.sampled_from(["5", "x", "\\sqrt{x}", "\\sin x", "e^{x}-\\frac{1}{x}"]), terms())
def test_no_term_but_0_may_be_added(expression: str, term: str) -> None:
    assert not equal(expression, f"{expression}+{term}")
    assert equal(f"{expression}+{term}", f"{term}+({expression})")
