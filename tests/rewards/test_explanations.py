"""`grade(..., explain=True)`: where the answer stands, how both sides were read, what decided."""

from pathlib import Path

import pytest

from ictcli.rewards import Limits, Reading, grade
from ictcli.rewards.explanations import RULES, SOURCES

CASES = [
    (r"so \boxed{\frac{1}{2}}", "0.5", "math", "box", "numbers"),
    (r"\boxed{1}, \boxed{2} and \boxed{3}", r"\{1, 2, 3\}", "math", "boxes", "parts"),
    ("#### 18 dollars", "18", "integer", "hashes", "numbers"),
    (r"\boxed{\dfrac12}", r"\frac{1}{2}", "math", "box", "layout"),
    (r"\boxed{x^2-1}", "(x-1)(x+1)", "math", "box", "algebra"),
    (r"\boxed{[1,2)}", "(1,2)", "math", "box", "parts"),
    (r"\boxed{((}", "5", "math", "box", "unreadable"),
    ("no box, 5", "5", "math", "", "no answer"),
    (r"\boxed{C}", "C", "choice", "box", "letters"),
    ("The answer is (B).", "C", "choice", "words", "letters"),
    (r"\boxed{15+8^2-3}", "76", "math", "box", "form"),
    ("The answer is B. The answer is C.", "C", "choice", "words", "letters"),
    (r"\boxed{B} or \boxed{C}", "C", "choice", "box", "unreadable"),
    ("none", "C", "choice", "", "no answer"),
    ("1-5;6#", "6", "chain", "response", "verifier"),
]


@pytest.mark.parametrize(("response", "gold", "kind", "source", "rule"), CASES)
def test_source_and_rule_are_named(
    response: str, gold: str, kind: str, source: str, rule: str
) -> None:
    explanation = grade(response, gold, kind, explain=True)
    assert (explanation.source, explanation.rule) == (source, rule)
    assert source in SOURCES
    assert explanation.verdict == grade(response, gold, kind)
    assert explanation.gold.text == gold
    assert explanation.why.startswith(RULES[rule]) and explanation.verdict.reason in explanation.why


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
    explanation = grade(f"\\boxed{{{text}}}", text, explain=True)
    assert explanation.answer == explanation.gold == Reading(text, meaning)


def test_a_pattern_is_named_with_what_it_finds() -> None:
    explanation = grade("A: 18", "18", "integer", pattern="^A: (.*)$", explain=True)
    assert (explanation.source, explanation.answer.text) == ("pattern", "18")
    missing = grade("18", "18", "integer", pattern="^A: (.*)$", explain=True)
    assert missing.rule == "no answer" and "the answer pattern matches nothing" in missing.why
    last = grade("A: 18\nA: 1,018", "18", "integer", pattern="^A: (.*)$", explain=True)
    assert (last.verdict.status, last.answer.text) == ("wrong", "1,018")
    letter = grade(
        "A: 12 m", "B", "choice", pattern="^A: (.*)$", choices=["8 m", "12 m"], explain=True
    )
    assert (letter.source, letter.answer) == ("pattern", Reading("12 m", "the letter B"))


def test_a_limit_and_a_failure_are_named(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def f(response, gold):\n"
        "    if response == 'loop':\n"
        "        while True: pass\n"
        "    raise ValueError('no end')\n"
    )
    kind, limits = f"{tmp_path / 'own.py'}:f", Limits(seconds=0.5, workers=1)
    stopped, failed = grade(["loop", "x"], ["1", "1"], kind, limits=limits, explain=True)
    assert stopped.rule == "limit" and "took more than 0.5 s" in stopped.why
    assert failed.rule == "verifier" and "no end" in failed.why
