"""The reader of expressions against values computed beside it, in float64 and Python's integers."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.latex import flat, tidy
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.symbols import equal
from ictcli.rewards.workers import Fault, Limits, isolated
from tests.cases import FEW

X, Y = 1.75, 0.6
Written = tuple[str, float, int]
"""LaTeX, its value at x = X and y = Y, and how it binds: 0 sum, 1 product, 2 power, 3 atom."""


def bracketed(part: Written, least: int) -> str:
    return part[0] if part[2] >= least else f"\\left({part[0]}\\right)"


def leaves() -> st.SearchStrategy[Written]:
    whole = st.integers(0, 30).map(lambda n: (str(n), float(n), 3))
    decimal = st.integers(1, 999).map(lambda n: (f"{n / 100:.2f}", n / 100, 3))
    letters = st.sampled_from([("x", X, 3), ("y", Y, 3), ("\\pi ", math.pi, 3), ("e", math.e, 3)])
    return st.one_of(whole, decimal, letters)


def sum_of(parts: tuple[Written, Written, str]) -> Written:
    left, right, sign = parts
    value = left[1] + right[1] if sign == "+" else left[1] - right[1]
    return f"{left[0]} {sign} {bracketed(right, 1)}", value, 0


def product_of(parts: tuple[Written, Written, str]) -> Written:
    left, right, sign = parts
    first, second = bracketed(left, 1), bracketed(right, 2)
    if sign == "" and (second[0].isdigit() or first[-1].isdigit()):
        sign = "\\cdot"  # x(2) has two readings
    return f"{first}{sign}{' ' if sign[-1:].isalpha() else ''}{second}", left[1] * right[1], 1


def fraction_of(parts: tuple[Written, Written, str]) -> Written:
    above, below, command = parts
    value = above[1] / below[1] if abs(below[1]) > 1e-6 else math.nan
    if command == "/":
        return f"{bracketed(above, 2)}/({below[0]})", value, 1
    return f"{command}{{{above[0]}}}{{{below[0]}}}", value, 2  # no base of a power without brackets


def power_of(parts: tuple[Written, int]) -> Written:
    base, exponent = parts
    return f"{bracketed(base, 3)}^{{{exponent}}}", base[1] ** exponent, 2


def function_of(parts: tuple[Written, str]) -> Written:
    inside, name = parts
    value = inside[1]
    computed = {
        "sqrt": lambda v: math.sqrt(v) if v >= 0 else math.nan,
        "sin": math.sin,
        "cos": math.cos,
        "ln": lambda v: math.log(v) if v > 0 else math.nan,
        "||": abs,
        "floor": lambda v: math.floor(v) if math.isfinite(v) else math.nan,
    }[name](value)
    text = {
        "sqrt": f"\\sqrt{{{inside[0]}}}",
        "||": f"|{inside[0]}|" if "|" not in inside[0] else f"\\sqrt{{({inside[0]})^2}}",
        "floor": f"\\lfloor {inside[0]} \\rfloor",
    }.get(name, f"\\{name}({inside[0]})")
    return text, computed, 2


def grown(inner: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    return st.one_of(
        st.tuples(inner, inner, st.sampled_from("+-")).map(sum_of),
        st.tuples(inner, inner, st.sampled_from(["\\cdot", "*", "", "\\times"])).map(product_of),
        st.tuples(inner, inner, st.sampled_from(["\\frac", "\\dfrac", "/"])).map(fraction_of),
        st.tuples(inner, st.integers(1, 3)).map(power_of),
        st.tuples(inner, st.sampled_from(["sqrt", "sin", "cos", "ln", "||", "floor"])).map(
            function_of
        ),
    )


written = st.recursive(leaves(), grown, max_leaves=7)


@given(written)
def test_what_is_read_has_the_value_that_was_written(expression: Written) -> None:
    """Only what has two readings, or is too large, or divides by zero, is not read."""
    text, value, _ = expression
    assume(math.isfinite(value) and abs(value) < 1e9 and text.count("floor") < 2)
    try:
        found, _ = algebra.read(tidy(text))
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


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (r"\sin^{-1} 1", r"\frac{\pi}{2}", True),
        (r"2 \cdot 1\frac{1}{2}", "3", True),
        (r"\int_0^1 \frac{2x}{x^2+1} dx", r"\int_0^1 \frac{t+t}{1+t^2} dt", True),
        (r"\sqrt[3]{-8}", "-2", True),
        (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}", True),
        (r"\lceil x \rceil", "x", False),
        (r"\lceil \frac{5}{2} \rceil", "3", True),
        (r"\sqrt{x^2}", "|x|", True),
        (r"\ln(x^2)", r"2\ln x", False),  # real at other points
        (r"\ln(x^2)", r"2\ln|x|", True),
        (r"e^{i\pi}+1", "0", True),
        (r"2^{100}-1", "2^{100}", False),
        (r"1+10^{-60}", "1", False),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}", True),
        ("f(x)+1", "1+f(x)", True),
        ("x_1", "x_2", False),
    ],
)
def test_equality_is_that_of_the_values(left: str, right: str, same: bool) -> None:
    assert equal(tidy(left), tidy(right)) is same
    assert equal(tidy(right), tidy(left)) is same


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=500))
def test_every_way_to_write_a_fraction_is_that_number(value: Fraction) -> None:
    n, d = value.numerator, value.denominator
    texts = [f"{n}/{d}", f"\\frac{{{n}}}{{{d}}}", f"-\\dfrac{{{-n}}}{{{d}}}"]
    if value > 0 and n % d:
        texts += [f"{n // d}\\frac{{{n % d}}}{{{d}}}", f"{n // d} {n % d}/{d}"]
    for text in texts:
        assert number(tidy(text)) == value


@given(st.decimals(min_value=-(10**6), max_value=10**6, places=4))
def test_every_decimal_is_exact(value: Any) -> None:
    assert number(tidy(f"{value:,}")) == Fraction(value)


@given(st.text(alphabet="\\{}()[]$^_frac12sqrtex ,.|&%pi=<>", max_size=60))
def test_tidying_never_fails_and_ends(text: str) -> None:
    once = tidy(text)
    assert isinstance(flat(once), str)


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
    """Terms that are not 0, but are at every whole number, outside an interval, or to thousands of
    digits."""
    large, place = st.integers(1, 10**30), st.integers(2, 500)
    tiny = st.tuples(st.sampled_from(["10", "e", "\\pi", "(x^2+2)"]), st.integers(300, 4000))
    return st.one_of(
        large.map(lambda n: f"\\sin({n}\\pi x)"),
        large.map(lambda n: f"(1-\\cos(2\\pi\\cdot {n}x))"),
        tiny.map(lambda each: f"{each[0]}^{{-{each[1]}}}"),
        tiny.map(lambda each: f"\\sin({each[0]}^{{-{each[1]}}}x)"),
        st.integers(200, 4000).map(lambda n: f"(1-\\tanh({n}))"),
        st.integers(200, 4000).map(lambda n: f"e^{{-x^2-{n}}}"),
        place.map(lambda n: f"\\max(0,1-|x-({n})|)(2x-2({n})-1)(2x-2({n})+1)"),
        st.integers(1, 1999).map(lambda n: f"\\binom{{n}}{{{n}}}"),
    )


@FEW
@given(st.sampled_from(["5", "x", "\\sqrt{x}", "\\sin x", "e^{x}-\\frac{1}{x}"]), terms())
def test_no_term_but_0_may_be_added(expression: str, term: str) -> None:
    """Where that takes more than 40,000 digits, within the limits of a verdict."""
    (found,) = isolated(equal, [(expression, f"{expression}+{term}")], Limits(workers=1))
    assert found is False or (isinstance(found, Fault) and found.kind == "timeout")
    assert equal(f"{expression}+{term}", f"{term}+({expression})")
