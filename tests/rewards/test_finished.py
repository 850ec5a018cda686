"""An answer that equals the gold is a result: finished as the gold is, and not copied."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards import grade
from ictcli.rewards.maths.copies import copied
from ictcli.rewards.verifiers import COPIED, UNFINISHED
from tests.cases import FEW

Arithmetic = tuple[str, Fraction]
"""An expression and its value."""


def combined(parts: st.SearchStrategy[Arithmetic]) -> st.SearchStrategy[Arithmetic]:
    def joined(first: Arithmetic, sign: str, second: Arithmetic) -> Arithmetic:
        (left, a), (right, b) = first, second
        match sign:
            case "+" | "-":
                return f"{left}{sign}({right})", a + b if sign == "+" else a - b
            case "\\cdot" | "":
                return f"({left}){sign}({right})", a * b
            case "^":
                return f"({left})^2+({right})", a * a + b
            case _:
                return f"\\frac{{{left}}}{{({right})^2+1}}", a / (b * b + 1)

    signs = st.sampled_from(["+", "-", "\\cdot", "", "^", "\\frac"])
    return st.builds(joined, parts, signs, parts)


numbers = st.integers(1, 40).map(lambda n: (str(n), Fraction(n)))
expressions = combined(st.recursive(numbers, combined, max_leaves=5))


def normal_forms(value: Fraction) -> list[str]:
    """Ways to write a number with nothing left to do."""
    above, below = value.numerator, value.denominator
    if below == 1:
        return [str(above), f"{above}.0", f"x={above}"]
    fraction = "-" * (above < 0) + f"\\frac{{{abs(above)}}}{{{below}}}"
    return [f"x = {above}/{below}", fraction, f"\\frac{{{2 * above}}}{{{2 * below}}}"]


@FEW
@given(expressions)
def test_arithmetic_is_no_answer_and_its_value_is(expression: Arithmetic) -> None:
    text, value = expression
    gold = normal_forms(value)[-1].removeprefix("x=")
    boxes = [f"\\boxed{{{each}}}" for each in (*normal_forms(value), f"{text} = {gold}")]
    assert {one.status for one in grade(boxes, [gold] * len(boxes))} == {"correct"}
    unfinished = grade(f"\\boxed{{{text}}}", gold)
    assert (unfinished.status, unfinished.reason) == ("wrong", UNFINISHED)


coefficients = st.integers(1, 9)


@pytest.mark.thorough
def test_a_question_of_any_text_is_searched_in_little_time() -> None:
    for text in ("$" * 20_000, "\\frac{" * 3000, "(" * 20_000, "$x$" * 6000, "{}^" * 6000):
        assert not copied("\\frac{6}{4}", "1.5", text)


NEUTRAL = [
    "({})", "1\\cdot {}", "({})^1", "\\frac{{{}}}{{1}}", "-(-({}))", "{}+0", "0x+{}", "{} = {}",
    "y = {}", "\\{{{}\\}}", "{} \\cdot \\frac{{5}}{{5}}",
]  # fmt: skip
"""Ways to write a formula that do nothing to it."""
WRITINGS = [  # of the formula (ax+b)(cx-d)/2, in turn with numbers and signs
    "\\frac{{({a}x+{b})({c}x-{d})}}{{2}}", "0.5({c}x-{d})({b}+{a}x)",
    "\\frac12({b}+{a}x)(-{d}+{c}x)", "-\\frac{{({a}x+{b})({d}-{c}x)}}{{2}}",
    "(-{a}x-{b}) \\cdot ({d}-{c}x)/2", "({a}x+{b})({c}x-{d}) \\cdot 2^{{-1}}",
    "({a}.0x+{b})({c}x-{d}) \\div 2",
]  # fmt: skip


@FEW
@given(coefficients, coefficients, coefficients, coefficients, st.data())
def test_no_neutral_rewriting_of_a_formula_of_the_question_is_rewarded(
    a: int, b: int, c: int, d: int, data: st.DataObject
) -> None:
    numbers = {"a": a + 1, "b": b, "c": c + 1, "d": d}
    asked = data.draw(
        st.sampled_from(["Expand ${}$.", "Expand {}, please.", "Is $y={}$ an odd one?"])
    )
    formula = data.draw(st.sampled_from(WRITINGS)).format(**numbers)
    copies = [writing.format(**numbers) for writing in WRITINGS]
    copies += [way.format(*[copies[0]] * 2) for way in NEUTRAL]
    boxes = [f"\\boxed{{{copy}}}" for copy in copies]
    first, second, third = (a + 1) * (c + 1), b * (c + 1) - (a + 1) * d, -b * d
    gold = f"\\frac{{{first}x^2{second:+d}x{third:+d}}}{{2}}"
    golds = [f"\\{{{gold}\\}}" if "\\{" in copy else gold for copy in copies]
    found = grade(boxes, golds, questions=[asked.format(formula)] * len(boxes))
    assert {one.status for one in found} == {"wrong"}
    assert {one.reason for one in found} <= {COPIED, UNFINISHED}
    assert grade(f"\\boxed{{{gold}}}", gold, questions=asked.format(formula)).status == "correct"
