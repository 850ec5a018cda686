"""What is read from a response as its answer, and how it is judged."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from ictcli.rewards import Limits, Verdict, find_verifier, grade
from ictcli.rewards.builtin import as_integer
from ictcli.tasks import Domain
from ictcli.types import Problem

INTEGERS = [
    (r"\$18", 18),
    ("12.", 12),
    (" 3 ", 3),
    (r"1\!000", 1000),
    ("1e3", 1000),
    ("18 dollars", 18),
    (r"x = 18\text{ apples}", 18),
    (r"\frac{36}{2}", 18),
    (r"25\%", 25),
    *((text, None) for text in ("12.5", "1/2", "", "-", "--3", "9" * 500)),
    *((commas, None) for commas in ("1,2", "1,2,3", "0,5", ",5", "1,23", "12,34")),
]


SAID = {
    "Paris": [r"\textbf{\text{Paris}}", r"\(\text{paris}\)", "**Paris**", "$Paris$.", "x = Paris"],
    "New York": [r"New\ York", "new~york", "New-York,"],
    "Jean-Paul": ["Jean\N{EN DASH}Paul", "jean paul"],
    "no solution": [r"\emptyset", "No solution"],
    "Stra\N{LATIN SMALL LETTER SHARP S}e": ["STRASSE"],
    "McDonald": ["MCDONALD"],
}
WRONG = {
    "Paris": ["not Paris", "Lyon", "Paris or Lyon"],
    "yes": ["-yes"],
    "x-y": ["x y"],
    "!": ["."],
}


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        *((gold, answer, True) for gold, answers in SAID.items() for answer in answers),
        *((gold, answer, False) for gold, answers in WRONG.items() for answer in answers),
    ],
)
def test_words_are_the_same_in_any_dress(gold: str, answer: str, *, same: bool) -> None:
    for response in (f"so\n#### {answer}", f"\\boxed{{{answer}}}"):
        assert (grade(response, gold, "text").status == "correct") == same


def test_words_without_a_mark_are_no_answer() -> None:
    assert grade("karst", "karst", "text").status == "unparsed"
    assert grade("it is karst", "karst", "text", pattern="is (.*)").status == "correct"


@pytest.mark.parametrize(("text", "value"), INTEGERS)
def test_an_integer_is_read_whole_or_not_at_all(text: str, value: int | None) -> None:
    assert as_integer(text) == value


LATEX = st.text(alphabet="\\{}()[]$^_frac12sqrtex ,.|&%pi=<>", max_size=60)


@given(st.text(max_size=60) | LATEX, st.sampled_from(["3", r"\frac{1}{2}", "x", ""]))
def test_no_response_makes_a_verifier_raise(response: str, gold: str) -> None:
    assert grade(response, gold).status in ("correct", "wrong", "unparsed")
    assert grade(f"\\boxed{{{response}}}", gold).status in ("correct", "wrong", "unparsed")


def test_a_verifier_that_raises_spoils_its_own_answer_only() -> None:
    def picky(response: str, gold: str) -> Verdict:
        if response == "bad":
            raise ZeroDivisionError
        return Verdict("correct" if response == gold else "wrong", response)

    found = grade(["a", "bad", "c"], ["a", "b", "d"], picky)
    assert [verdict.status for verdict in found] == ["correct", "unparsed", "wrong"]
    assert [verdict.reward for verdict in found] == [1.0, 0.0, 0.0]
    assert [verdict.failed for verdict in found] == [False, True, False]
    assert "ZeroDivisionError" in found[1].reason

    def choice(response: str, gold: str) -> Verdict:  # no built-in one, and it calls another
        return grade(response, gold, picky)

    assert grade(["a", "c"], ["a", "d"], choice) == [found[0], found[2]]
    assert grade("bad", "b", choice).failed


def test_grading_needs_a_gold_and_a_question_for_every_response() -> None:
    for more, words in (
        ({"golds": ["1"]}, "2 responses, but 1 golds"),
        ({"choices": [["1", "2"]]}, "but 1 choices"),
        ({"questions": ["?"]}, "but 1 questions"),
    ):
        asked: Any = {"golds": ["a", "b"], **more}
        with pytest.raises(ValueError, match=words):
            grade(["a", "b"], asked.pop("golds"), "choice", **asked)


@pytest.mark.thorough
def test_math_verify_judges_as_the_library_does() -> None:
    import math_verify  # pyright: ignore[reportMissingTypeStubs]

    pairs = [(r"so \boxed{\frac{1}{2}}", "0.5"), (r"\boxed{x+1}", "$x+2$"), ("none", "5")]
    verdicts = grade([pair[0] for pair in pairs], [pair[1] for pair in pairs], "math-verify")
    for (response, gold), verdict in zip(pairs, verdicts, strict=True):
        marked = gold if gold[0] == "$" else f"\\boxed{{{gold}}}"
        same = math_verify.verify(math_verify.parse(marked), math_verify.parse(response))
        assert (verdict.status == "correct") == same
    assert verdicts[-1].status == "unparsed"
    endless = grade(r"\boxed{9^{9^{9^9}}}", "5", "math-verify", limits=Limits(seconds=3))
    assert endless.status != "correct"


def test_halves_of_surrogate_pairs_do_not_pass() -> None:
    found = grade(["a"], ["b"], lambda response, gold: Verdict("wrong", "\ud800"))
    assert found[0].extracted.encode() == b"?"


# Verifiers of a file

FILE = """
import os
from time import process_time

import table
from ictcli.rewards import Verdict

print("loaded")
end = process_time() + 0.6
while process_time() < end:
    pass

def half(response, gold):
    while response == "loop":
        pass
    return eval(response) if table.VALUE == 3 else None

def new(response, gold, question):
    return response == question + gold

def old(response, gold, tolerance=0):
    return response == "ab" and tolerance == 0
"""
LIMITS = Limits(seconds=0.3, workers=1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifiers")
    (folder / "table.py").write_text("VALUE = 3\n")
    (folder / "mine.py").write_text(FILE)
    return folder / "mine.py"


def test_in_a_worker_what_fails_is_reported_and_imports_are_not_charged_to_an_answer(
    file: Path,
) -> None:
    """What gives no verdict fails, and so does one with figures that are none."""
    junk = ["Verdict('wrong', 5)", "Verdict('wrong', 'x', None)", "Verdict('fine')", "1", "None"]
    junk += ["1 / 0", "Verdict('correct', score=float('nan'))"]
    asked = ["Verdict('wrong', str(os.getpid()), score=0.5)", "True", *junk, "loop"]
    found = grade(asked, ["g"] * len(asked), f"{file}:half", limits=LIMITS)
    assert found[0].reward == 0.5 and found[0].extracted != str(os.getpid())
    others = ["unparsed"] * len(junk)
    assert [one.status for one in found] == ["wrong", "correct", *others, "timeout"]
    assert [one.failed for one in found] == [False] * 2 + [True] * len(junk) + [False]
    with refused("has no function"):
        find_verifier(f"{file}:quarter")
    with refused("cannot be imported"):
        find_verifier("no.such.module:grade")


@pytest.mark.parametrize("name", ["new", "old"])
def test_one_with_a_parameter_question_is_given_it_and_others_are_not(
    file: Path, name: str
) -> None:
    kind = find_verifier(f"{file}:{name}")
    assert grade("ab", "b", kind, questions="a").status == "correct"
    for judge in (kind, kind.judge):  # in a worker, in this process
        found = Domain(judge, limits=LIMITS).judge([Problem("p", "a", "b")], ["ab", "bb"])
        assert [one.status for one in found] == ["correct", "wrong"]
