"""`explain`: where the answer stands, and how both sides were read."""

import pytest

from ictcli.rewards import Reading, explain, grade
from ictcli.rewards.explanations import SOURCES

CASES = [
    (r"so \boxed{\frac{1}{2}}", "0.5", "math", "box"),
    (r"\boxed{1}, \boxed{2} and \boxed{3}", r"\{1, 2, 3\}", "math", "boxes"),
    ("#### 18 dollars", "18", "integer", "hashes"),
    ("no box, 5", "5", "math", ""),
    (r"\boxed{C}", "C", "choice", "box"),
    ("The answer is (B).", "C", "choice", "words"),
    ("none", "C", "choice", ""),
    ("1-5;6#", "6", "chain", "response"),
]


@pytest.mark.parametrize(("response", "gold", "kind", "source"), CASES)
def test_the_source_is_named(response: str, gold: str, kind: str, source: str) -> None:
    (explanation,) = explain([response], [gold], kind)
    assert explanation.source == source and source in SOURCES
    assert explanation.verdict == grade(response, gold, kind)
    assert explanation.gold.text == gold


READINGS = [
    (r"\frac{3}{4}", "the number 3/4"),
    ("1,234", "the number 1234"),
    ("x+1", "the expression x+1"),
    (r"5\text{ cm}", "the number 5 in cm"),
    (r"25\%", "the number 25 percent"),
    ("52_8", "52 in base 8"),
    ("[1, 2)", "[1, 2)"),
    (r"\{2, 1\}", "a set: 2, 1"),
    (r"\pm 2", "a list: 2, -2"),
    (r"\emptyset", "the empty set"),
    (r"\mathbb{R}", "all real numbers"),
    (r"\text{Evelyn}", 'the words "evelyn"'),
    ("x = 5", "x is the number 5"),
    ("x < y", "the inequality x < y"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "a matrix: 1, 2; 3, 4"),
    (r"(-\infty,1)\cup(2,3)", "the union of (-\\infty, 1) and (2, 3)"),
    ("((", ""),
    ("7" * 801, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), READINGS)
def test_both_sides_are_read_alike(text: str, meaning: str) -> None:
    (explanation,) = explain([f"\\boxed{{{text}}}"], [text])
    assert explanation.answer == explanation.gold == Reading(text, meaning)


def test_a_pattern_is_named_with_what_it_finds() -> None:
    (explanation,) = explain(["A: 18"], ["18"], "integer", pattern="^A: (.*)$")
    assert (explanation.source, explanation.answer.text) == ("pattern", "18")
    choices = [["8 m", "12 m"]]
    (letter,) = explain(["A: 12 m"], ["B"], "choice", pattern="^A: (.*)$", choices=choices)
    assert (letter.source, letter.answer) == ("pattern", Reading("12 m", "the letter B"))
