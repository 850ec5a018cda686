"""An answer that equals the gold is a result: finished as the gold is, and not copied."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ictcli.rewards import grade
from ictcli.rewards.maths.copies import copied
from ictcli.rewards.verifiers import COPIED, UNFINISHED

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
    forms = [f"x = {above}/{below}"] if below > 1 else [str(above), f"{above}.0", f"x={above}"]
    if below > 1:
        sign = "-" * (above < 0)
        forms += [
            f"{sign}\\frac{{{abs(above)}}}{{{below}}}",
            f"\\frac{{{2 * above}}}{{{2 * below}}}",
        ]
    return forms


@given(expressions)
def test_arithmetic_is_no_answer_and_its_value_is(expression: Arithmetic) -> None:
    text, value = expression
    gold = normal_forms(value)[-1].removeprefix("x=")
    boxes = [f"\\boxed{{{each}}}" for each in (*normal_forms(value), f"{text} = {gold}")]
    assert {one.status for one in grade(boxes, [gold] * len(boxes))} == {"correct"}
    unfinished = grade(f"\\boxed{{{text}}}", gold)
    assert (unfinished.status, unfinished.reason) == ("wrong", UNFINISHED)


coefficients = st.integers(1, 9)


@given(coefficients, coefficients, coefficients, st.sampled_from(["Expand $%s$.", "What is %s?"]))
def test_a_formula_of_the_question_is_rewarded_only_as_the_form_of_the_gold(
    a: int, b: int, c: int, asked: str
) -> None:
    factored = f"({a}x+{b})(x+{c + 20})"
    expanded = f"{a}x^2+{a * (c + 20) + b}x+{b * (c + 20)}"
    turned = f"(x+{c + 20})({b}+{a}x)"
    terms = "+".join(reversed(expanded.split("+")))
    for question, gold, copies in (
        (factored, expanded, (factored, turned, f"y = {turned}")),
        (expanded, factored, (expanded, terms, f"y = {terms}")),
    ):
        boxes = [f"\\boxed{{{copy}}}" for copy in copies]
        golds = [gold] * len(boxes)
        assert {one.status for one in grade(boxes, golds)} == {"correct"}
        found = grade(boxes, golds, questions=[asked % f"y={question}"] * len(boxes))
        assert {(one.status, one.reason) for one in found} == {("wrong", COPIED)}
        own = grade(f"\\boxed{{{gold}}}", gold, questions=asked % gold)
        assert own.status == "correct"


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


@settings(max_examples=12, deadline=None)
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


HIDDEN = [
    "\\frac{{({g})({f})}}{{{f}}}", "({g})({f})-({g})({f}-1)", "{g}+y-y", "({g})x^0",
    "{g}+\\frac{{1}}{{{f}}}-\\frac{{1}}{{{f}}}", "\\frac{{1}}{{\\frac{{1}}{{{g}}}}}",
    "\\frac{{{m}({g})}}{{{m}}}", "\\sqrt{{({g})^2}}", "\\ln e^{{{g}}}", "e^{{\\ln({g})}}",
    "(\\sqrt[3]{{{g}}})^3", "{g}+\\sin^2 x+\\cos^2 x-1", "{m}({g})-({g})({m}-1)",
    "{g}+{f}-({f})", "\\frac{{x({g})}}{{x}}", "\\frac{{({g})^2}}{{{g}}}",
]  # fmt: skip
"""Ways to hide a polynomial g, with a factor f and a number m."""


@settings(max_examples=12, deadline=None)
@given(coefficients, coefficients, coefficients)
def test_nothing_that_cancels_is_hidden_in_an_answer(a: int, b: int, m: int) -> None:
    gold = f"{a + 1}x^2+x+{b}"
    answers = [way.format(g=gold, f=f"x+{b + 10}", m=m + 1) for way in HIDDEN]
    answers += [f"({a + 1}x+{b + 1})x+{b}-{b}x", f"x({a + 1}x+1)+{b + 1}-1", f"{a}x^2+x^2+x+{b}"]
    found = grade([f"\\boxed{{{answer}}}" for answer in answers], [gold] * len(answers))
    assert not any(one.status == "correct" for one in found)
    golds = [
        gold.replace("x", "\\sqrt{x}"),
        gold.replace("x", "\\sin x"),
        f"\\frac{{{gold}}}{{x+1}}",
    ]
    answers = [HIDDEN[0].format(g=each, f="\\sqrt{x}+1" if "sqrt" in each else "x-1", m=2)
               for each in golds]  # fmt: skip
    found = grade([f"\\boxed{{{answer}}}" for answer in answers], golds)
    assert [one.reason for one in found] == [UNFINISHED] * 3


@settings(max_examples=12, deadline=None)
@given(coefficients, coefficients)
def test_every_normal_form_of_a_gold_is_right(a: int, b: int) -> None:
    a, b = a + 1, b + a + 2
    forms = [
        [f"x^2{a + b:+d}x{a * b:+d}", f"(x+{a})(x+{b})", f"({b}+x)({a}+x)", f"x(x+{a + b})+{a * b}",
         f"(x+{(a + b) / 2})^2-{(a - b) ** 2 / 4}"],
        [f"\\frac{{{b - a}}}{{(x+{a})(x+{b})}}", f"\\frac{{1}}{{x+{a}}}-\\frac{{1}}{{x+{b}}}",
         f"\\frac{{{b - a}}}{{x^2+{a + b}x+{a * b}}}", f"{b - a}(x+{a})^{{-1}}(x+{b})^{{-1}}"],
        [f"\\frac{{{a}+\\sqrt{{{b}}}}}{{23}}", f"\\frac{{{a}}}{{23}}+\\frac{{\\sqrt{{{b}}}}}{{23}}",
         f"\\frac{{1}}{{23}}({b}^{{1/2}}+{a})"],
        [f"{a}x+{b}", f"{b}+{a}x"],
    ]  # fmt: skip
    for equal in forms:
        pairs = [(gold, answer) for gold in equal for answer in equal]
        found = grade([f"\\boxed{{{answer}}}" for _, answer in pairs], [gold for gold, _ in pairs])
        assert [
            pair for pair, one in zip(pairs, found, strict=True) if one.status != "correct"
        ] == []


@given(coefficients, coefficients, coefficients, st.sampled_from(["x", "\\pi", "\\sqrt{3}", "n^2"]))
def test_what_can_be_added_to_a_term_in_a_bracket_is(a: int, b: int, c: int, term: str) -> None:
    a += 1
    for gold, answers in (
        (f"{a}{term}+{a * b + c}", [f"{a}({term}+{b})+{c}", f"{c}-{a}(-{b}-{term})"]),
        (
            f"{a + c}{term}+{a * b}",
            [f"{a}({term}+{b})+{c}{term}", f"{c}{term}+({b}+{term})\\cdot {a}"],
        ),
        (f"{a}y{term}+{a * b + c}y", [f"{a}y({term}+{b})+{c}y"]),
    ):
        found = grade([f"\\boxed{{{answer}}}" for answer in answers], [gold] * len(answers))
        assert {one.reason for one in found} == {UNFINISHED}
    kept = [(f"{a}(x-{b})^2+{c}", f"{a}x^2-{2 * a * b}x+{a * b * b + c}"),
            (f"x({a}x+{b})+{c}", f"{a}x^2+{b}x+{c}")]  # fmt: skip
    found = grade([f"\\boxed{{{answer}}}" for answer, _ in kept], [gold for _, gold in kept])
    assert {one.status for one in found} == {"correct"}


@given(coefficients, st.sampled_from(["x", "2x", "x+1", "\\frac{x}{2}"]), st.booleans())
def test_squares_of_a_sine_and_its_cosine_are_added(n: int, angle: str, turned: bool) -> None:
    squares = [f"{n + 1}\\{name}^2({angle})" for name in ("sin", "cos")]
    both = "+".join(squares[::-1] if turned else squares)
    for gold, answer in (
        ("\\tan x", f"\\tan x({both})/{n + 1}"),
        (f"\\sin x+{n + 1}", f"\\sin x+{both}"),
    ):
        assert grade(f"\\boxed{{{answer}}}", gold).status != "correct"
        assert grade(f"\\boxed{{{answer}}}", answer.replace("x", "y")).status == "wrong"
        assert grade(f"\\boxed{{{both}+{gold}}}", f"{gold}+{both}").status == "correct"


@settings(max_examples=12, deadline=None)
@given(coefficients, coefficients, coefficients, st.integers(2, 5))
def test_an_equation_of_the_question_is_not_solved_by_moving_its_terms(
    a: int, b: int, c: int, times: int
) -> None:
    gold, given_one = f"y={a}x-{b}", f"{a * c}x-{c}y={b * c}"
    moved = [f"{a * times}x-{b * times}={times}y", f"y+{b}={a}x", f"{b}={a}x-y", given_one]
    asked = f"Solve ${given_one}$ for $y$."
    boxes = [f"\\boxed{{{answer}}}" for answer in moved]
    found = grade(boxes, [gold] * len(boxes), questions=[asked] * len(boxes))
    assert {one.status for one in found} == {"wrong"}
    asked = f"What line through (0, -{b}) is parallel to ${given_one}+1$?"
    found = grade(boxes[1:3], [gold] * 2, questions=[asked] * 2)
    assert {one.status for one in found} == {"correct"}
    solved = grade(f"\\boxed{{y=-{b}+{a}x}}", gold, questions=asked)
    assert solved.status == "correct"
