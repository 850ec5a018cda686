"""Families of pairs: several values, ratios, equations and expressions."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction

Pair = tuple[str, str, bool]
"""(gold, answer, whether they are the same)."""


def lists(draw: random.Random) -> Iterator[Pair]:
    for _ in range(14):
        values = draw.sample(range(-9, 20), 3)
        gold, turned = (", ".join(map(str, order)) for order in (values, values[::-1]))
        yield gold, turned, True
        yield gold, f"\\{{{turned}\\}}", True
        yield gold, f"a = {turned}", True
        yield gold, " \\text{ or } ".join(f"x = {value}" for value in values), True
        yield gold, f"({gold})", False
        yield gold, f"[{gold}]", False
        yield gold, f"{gold}, {values[0]}", False
        yield gold, f"{values[0]}, {values[1]}", False
        yield gold, f"x = {values[0]}, y = {values[1]}, z = {values[2]}", False
    for dots in ("\\ldots", "\\dots", "\\cdots"):
        start, step = draw.randint(1, 9), draw.randint(1, 5)
        first, second, last = start, start + step, start + 9 * step
        gold = f"{first}, {second}, \\ldots, {last}"
        yield gold, f"{first},{second},{dots},{last}", True
        yield gold, f"\\{{{first}, {second}, {dots}, {last}\\}}", True
        yield gold, f"{second}, {first}, {dots}, {last}", False
        yield gold, f"\\{{{last}, {dots}, {first}, {second}\\}}", False
        yield gold, f"{first}, {dots}, {second}, {last}", False


def tuples(draw: random.Random) -> Iterator[Pair]:
    for _ in range(14):
        first, second = draw.sample(range(-9, 20), 2)
        gold = f"({first},{second})"
        yield gold, f"\\left({first}, {second}\\right)", True
        yield gold, f"(x,y) = ({first}, {second})", True
        yield gold, f"({second},{first})", False
        for answer in ("{}, {}", "{} \\text{{ or }} {}", "x={}, y={}", "[{},{}]", "({},{}]",
                       "\\{{{},{}\\}}"):  # fmt: skip
            yield gold, answer.format(first, second), False


def assignments(draw: random.Random) -> Iterator[Pair]:
    for _ in range(12):
        first, second = draw.sample(range(-9, 20), 2)
        gold = f"x={first}, y={second}"
        yield gold, f"y = {second}, x = {first}", True
        yield gold, f"(x,y) = ({first},{second})", True
        yield gold, f"(y,x) = ({second},{first})", True
        yield gold, f"x={second}, y={first}", False
        yield gold, f"{first}, {second}", False
        yield gold, f"({first}, {second})", False


def plus_minus(draw: random.Random) -> Iterator[Pair]:
    for value in ("3", "\\sqrt{5}", "\\frac{1}{2}", "2i"):
        yield f"\\pm {value}", f"{value}, -{value}", True
        yield f"\\pm {value}", f"x = -{value} \\text{{ or }} x = {value}", True
        yield f"1 \\pm {value}", f"1-{value}, 1+{value}", True
        yield f"\\pm {value}", value, False
        yield f"\\pm {value}", f"({value}, -{value})", False
        yield value, f"\\pm {value}", False


def intervals(draw: random.Random) -> Iterator[Pair]:
    for opening, closing in (("(", ")"), ("[", "]"), ("[", ")"), ("(", "]")):
        low = draw.randint(-9, 3)
        high = low + draw.randint(1, 9)
        lower, upper = ("\\le" if opening == "[" else "<"), ("\\le" if closing == "]" else "<")
        more, less = ("\\ge" if opening == "[" else ">"), upper
        gold = f"{opening}{low},{high}{closing}"
        same = [
            f"x \\in {opening}{low}, {high}{closing}", f"{low} {lower} x {upper} {high}",
            f"x {more} {low} \\text{{ and }} x {less} {high}",
            f"\\{{x \\mid {low} {lower} x {upper} {high}\\}}",
        ]  # fmt: skip
        for answer in same:
            yield gold, answer, True
            yield same[0], answer, True
        other = "(" if opening == "[" else "["
        for answer in (
            f"{other}{low},{high}{closing}", f"{opening}{low},{high + 1}{closing}", f"{low},{high}",
            f"\\{{{low},{high}\\}}", f"x {more} {low}",
            f"x {more} {low} \\text{{ or }} x {less} {high}",
        ):  # fmt: skip
            yield gold, answer, False


def inequalities(draw: random.Random) -> Iterator[Pair]:
    turned = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
    for sign, back in turned.items():
        bound, factor = draw.randint(-9, 9), draw.randint(2, 6)
        gold = f"x {sign} {bound}"
        yield gold, f"-x {back} {-bound}", True
        yield gold, f"{factor}x {sign} {factor * bound}", True
        yield gold, f"{bound} {back} x", True
        yield gold, f"-x {sign} {-bound}", False
        yield gold, f"x {back} {bound}", False
        yield gold, f"-{factor}x {back} {-factor * bound}", True


def ratios(draw: random.Random) -> Iterator[Pair]:
    for _ in range(10):
        first, second = draw.randint(1, 9), draw.randint(1, 9)
        gold = f"{first}:{second}"
        yield gold, f"{3 * first} : {3 * second}", True
        yield gold, f"\\frac{{{first}}}{{{second}}}", True
        yield gold, f"{first} \\text{{ to }} {second}", True
        yield gold, f"{first}:{second + 1}", False
        yield f"{first}:0", f"{first + 1}:0", False
        yield f"0:{first}", f"0:{first + 1}", False
        if first != second:
            yield gold, f"{second}:{first}", False


def times(draw: random.Random) -> Iterator[Pair]:
    for _ in range(10):
        hours, minutes = draw.randint(1, 12), 2 * draw.randint(0, 29)
        gold = f"{hours}:{minutes:02d}"
        yield gold, f"{hours:02d}:{minutes:02d}", True
        yield gold, f"\\text{{{gold}}}", True
        yield gold, f"{hours + 12}:{minutes:02d}", False
        yield gold, f"{hours}:{minutes + 1:02d}", False
        yield gold, f"{2 * hours}:{2 * minutes or 1:02d}", False
        yield gold, f"{Fraction(hours, minutes or 1)}", False
        yield f"\\text{{{gold} PM}}", f"{gold} \\text{{ p.m.}}", True
        yield f"\\text{{{gold} PM}}", f"{gold} \\text{{ a.m.}}", False


def name_quotients(draw: random.Random) -> Iterator[Pair]:
    for left in ("\\frac{AB}{CD}", "a:b", "V_1:V_2", "\\frac{x}{y}", "S_1/S_2"):
        first, second = draw.sample([2, 3, 5, 7], 2)
        right = f"{first}:{second}" if ":" in left else f"\\frac{{{first}}}{{{second}}}"
        wrong = f"{second}:{first}" if ":" in left else f"\\frac{{{second}}}{{{first}}}"
        yield f"{left} = {right}", right, True
        yield right, f"{left} = {right}", True
        yield right, f"{left} = {wrong}", False
        yield f"{left} = {right}", wrong, False
        yield right, f"x+y = {right}", False


def chains(draw: random.Random) -> Iterator[Pair]:
    for _ in range(14):
        first, second = draw.randint(2, 60), draw.randint(2, 60)
        total = first + second
        yield str(total), f"{first} + {second} = {total}", True
        yield str(total), f"n = {first} + {second} = {total}", True
        yield str(total), f"{total}.2 = {total}", False
        yield str(total), f"{first} + {second} = {total + 1} = {total}", False
        yield str(total), f"{first} = {total}", False
        yield str(first), f"{first} + {second} = {total}", False
        yield str(total), f"{first} + {second} = {total} = {total}.5", False


def equations(draw: random.Random) -> Iterator[Pair]:
    for _ in range(10):
        a, b, c = (draw.randint(2, 9) for _ in range(3))
        gold = f"{a}x + {b}y = {c}"
        yield gold, f"{2 * a}x + {2 * b}y = {2 * c}", True
        yield gold, f"{c} - {b}y = {a}x", True
        yield gold, f"-{a}x - {b}y + {c} = 0", True
        yield gold, f"{a}x - {b}y = {c}", False
        yield gold, f"{a}x + {b}y = {c + 1}", False
        yield str(c), gold, False
        yield gold, str(c), False


def expressions(draw: random.Random) -> Iterator[Pair]:
    for _ in range(12):
        a, b = draw.randint(2, 9), draw.randint(2, 9)
        gold = f"(x+{a})(x-{b})"
        linear = f"{a - b:+d}x" if a != b else ""
        yield gold, f"x^2{linear}-{a * b}", True
        yield gold, f"(x-{b})(x+{a})", True
        yield gold, f"x^2{linear}+{a * b}", False
        yield gold, f"(X+{a})(X-{b})", False
        yield gold, f"(x-{a})(x+{b})", a == b
        yield f"\\sqrt{{{a * a * b}}}", f"{a}\\sqrt{{{b}}}", True
        yield f"\\ln {a}^{b}", f"{b}\\ln {a}", True
        yield f"x^{a}", f"x^{{{a + 1}}}", False
    yield from _alike_at_most_points(draw)


def _alike_at_most_points(draw: random.Random) -> Iterator[Pair]:
    """What differs from `x` in a part of the line only, or has no value in one."""
    for place in draw.sample(range(30, 400), 6):
        tiny, width = f"10^{{-{draw.choice([20, 40, 90])}}}", draw.randint(2, 9)
        bumps = (
            f"\\frac{{1}}{{(x-{place})^2}}-{width}", f"1-e^{{(x-{place})^2-{width}}}",
            f"1-e^{{|x-{place}|-1/{width}}}", f"\\sin (x-{place})-0.99", f"{tiny}-(x-{place})^2",
            f"\\sqrt{{x-{place}}}-{width}", f"{tiny}-|x-{place}|", f"-10^{{{place}}}-x",
            f"1-(x-{place})^2-(y-{width})^2", f"(x-{place})({place}+{tiny}-x)",
        )  # fmt: skip
        for bump in bumps:
            yield "x", f"x+\\max(0, {bump})", False
        for never in (f"-e^{{x-{place}}}", f"-\\frac{{1}}{{(x-{place})^2}}", f"-|x-{place}|"):
            yield f"x+\\max(0, {never})", "x", True
        for half in (f"\\ln(x-{place})", f"\\sqrt{{x+{place}}}", f"\\log(x^2-{place})"):
            for nothing in (f"x+{half}-{half}", f"x+0{half}", f"x \\cdot 1^{{{half}}}",
                            f"x({half})^0", f"x+\\frac{{0}}{{{half}}}"):  # fmt: skip
                yield "x", nothing, False
            yield f"x+{half}", f"{half}+x", True
            yield f"x+2{half}-{half}", f"x+{half}", True
        yield str(place), f"{place}+\\ln x-\\ln x", False
        yield f"{place}+x-x", str(place), True


def two_readings(draw: random.Random) -> Iterator[Pair]:
    for gold in ("x", "n(n+1)/2", "2^n", "\\frac{1}{x}", "7", "\\ln x"):
        for exponent in ("x", "{2n}", "{\\ln x}", "{x^2+1}", "{|x|}"):
            yield gold, f"{gold}+0^{exponent}", False
        number = draw.randint(2, 9)
        yield gold, f"{gold}+(k-k)^n", False
        yield f"{gold}+0^{number}", gold, True


def functions(draw: random.Random) -> Iterator[Pair]:
    for name in ("\\gcd", "\\operatorname{lcm}"):
        yield f"{name}(m,n)", f"{name}(n,m)", True
        for answer in ("1", "mn", "m", f"{name}(m,n+1)", f"2{name}(m,n)"):
            yield f"{name}(m,n)", answer, False
    yield "f(x)+1", "1+f(x)", True
    yield "f(x)", "f(y)", False
    yield "f(x)", "fx", False


def bound_variables(draw: random.Random) -> Iterator[Pair]:
    for other in "ijmt":
        yield (
            "\\sum_{k=1}^{n} \\frac{1}{k}",
            f"\\sum_{{{other}=1}}^{{n}} \\frac{{1}}{{{other}}}",
            True,
        )
        yield (
            "\\sum_{k=1}^{n} \\frac{1}{k}",
            f"\\sum_{{{other}=1}}^{{n}} \\frac{{2}}{{{other}}}",
            False,
        )
        yield "\\int_0^1 e^{x^2} dx", f"\\int_{{0}}^{{1}} e^{{{other}^2}} \\, d{other}", True
        yield "\\int_0^1 e^{x^2} dx", f"\\int_{{0}}^{{1}} e^{{x^2}} \\, d{other}", False
        yield "\\int_0^1 e^{x^2} dx", f"\\int_{{0}}^{{2}} e^{{{other}^2}} \\, d{other}", False
    for power in (9, 15, 18, 20, 40):
        gold, tiny = "\\int_0^1 e^{x^2} dx", f"10^{{-{power}}}"
        yield gold, f"\\int_0^1 e^{{x^2}}(1+{tiny}) dx", False
        yield gold, f"\\int_0^1 e^{{x^2}}-{tiny} dx", False
        yield gold, f"\\int_0^{{1+{tiny}}} e^{{x^2}} dx", False
        yield gold, f"\\int_{{0.{'0' * power}1}}^1 e^{{x^2}} dx", False
        yield (
            f"\\int_0^1 e^{{x^{{{power}}}}} dx",
            f"\\int_0^1 e^{{x \\cdot x^{{{power - 1}}}}} dx",
            True,
        )
    for letter in "abty":
        gold = f"\\int_0^1 x^2{letter} dx"
        yield gold, f"\\int_0^1 u^2{letter} du", True
        yield gold, f"\\int_0^1 {letter}u^2 du", True
        yield gold, f"\\int_0^1 x^2{letter} d{letter}", False


FAMILIES: dict[str, Callable[[random.Random], Iterator[Pair]]] = {
    "list": lists,
    "tuple": tuples,
    "assignment": assignments,
    "plus-minus": plus_minus,
    "interval": intervals,
    "inequality": inequalities,
    "ratio": ratios,
    "time": times,
    "quotient of names": name_quotients,
    "chain": chains,
    "equation": equations,
    "expression": expressions,
    "two readings": two_readings,
    "function": functions,
    "bound variable": bound_variables,
}
"""The pairs that each rule of docs/verifier.md decides."""
