"""Where the answer stands in a response, and that reading it takes linear time."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards import Limits, grade
from ictcli.rewards.answers import LONGEST_BOX, boxes, located
from ictcli.rewards.builtin import math_at_once
from tests.cases import first

KINDS = (("math", None), ("choice", None), ("integer", "^A: (.*)$"))
SPECIAL = [chr(code) for code in range(128) if not chr(code).isalnum()]
PAIRS = [a + b for a in SPECIAL for b in SPECIAL]
UNITS = [
    *("#", "*", "{", "# ", "*\n", "#\n", *random.Random(0).sample(PAIRS, 6)),
    "\\boxed{", "\\boxed{}", "\\boxed{1}, ", "\\boxed", "\\boxed ", "box",
    "#### ", "####\n", "#### 5\n", "answer is ", "answer is *", "option: ",
    "the answer is A, ", "I hope this helps. ", "they ", "A\n", "{}", "\\{", "\\\\", " \n",
]  # fmt: skip
"""Parts of answers, and some pairs of special characters; all of them: bench/extraction.py."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is done here takes less CPU time."""
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("around", first(["*.\\boxed{B} *", "\\boxed{*}", "the answer is *"]))
def test_no_repeated_part_of_an_answer_takes_more_than_linear_time(unit: str, around: str) -> None:
    text = around.replace("*", unit * (20_000 // len(unit)))
    for kind, pattern in KINDS:
        with within(0.5):
            grade(text, "A" if kind == "choice" else "7", kind, pattern=pattern)


@pytest.mark.parametrize("closed", [0, 1, 100_000])
def test_nested_boxes_take_linear_time(closed: int) -> None:
    with within(1):
        assert boxes("\\boxed{" * 100_000 + "7" + "}" * closed) == (["7"] if closed else [])
        assert boxes("\\boxed{" * 10_000 + "}" * min(closed, 10_000)) == ([""] if closed else [])


LONG = [
    *(sign * 798 for sign in [*"\\{}()[]$^_ ,.:;=<>+-*/!|&%'~0aX"]),
    *("x=" * 399, "=A" * 399, "(√" * 399, "\\text{ a}" * 88, "x<" * 399),
    *("{" * 399 + "}" * 399, "\\frac{1}{" * 79 + "}" * 79),
]


@pytest.mark.parametrize("answer", LONG)
def test_a_long_answer_is_parsed_within_the_limits_of_a_worker(answer: str) -> None:
    with within(1):
        math_at_once(answer, "7")
        grade(f"\\boxed{{{answer}}}", "A", "choice", choices=["7", answer + "8", "x"])


def test_a_box_of_any_length_that_a_parser_reads_is_read() -> None:
    assert located("\\boxed{" + "7" * (LONGEST_BOX - 1) + "}").answer == "7" * (LONGEST_BOX - 1)
    assert located("\\boxed{5} \\boxed{" + "7" * LONGEST_BOX + "}").answer == "5"


@pytest.mark.parametrize("pattern", ["(a|x|xx)+$", "A:(.*)B", r"(.+)\1$"])
def test_a_pattern_that_takes_long_costs_its_own_answer_only(pattern: str) -> None:
    responses = ["x" * 3_000_000 + "A:" * 100_000, "A:7B", "x" * 70 + "!"]
    with within(5):
        results = grade(responses, ["7"] * 3, pattern=pattern, limits=Limits(0.3, workers=1))
    slow = [one for one in results if "took more than 0.3 s" in one.reason]
    assert all(one.status == "unparsed" for one in slow)
    if pattern == "A:(.*)B":
        assert slow and results[1].status == "correct"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{1} no, \boxed{ 2 }", "2"),
        (r"\fbox{3} \boxed{2", "3"),
        (r"\boxed {3}", "3"),
        ("#### 18", "18"),
        ("#### 1\nthen\n#### 2", "2"),
        (r"\boxed{3} #### 4", "3"),
        ("the answer is 42", None),
        (r"\boxed{42", None),
        ("", None),
        (r"\boxed{5} so \boxed{ } and \boxed{}", "5"),
        (r"\boxed{5} \fbox{}", "5"),
        (r"\boxed{5} \boxed{\boxed{}}", "5"),
        (r"\boxed{\boxed{}}", ""),
        (r"\boxed{} \boxed{ }", ""),
        (r"\boxed{{}}", "{}"),
        (r"\\boxed{5}", "5"),  # doubled backslashes of a double-escaped file
        (r"\fbox{ \boxed{ 5 } }", "5"),
        (r"\boxed{-\boxed{5}}", r"-\boxed{5}"),
        (r"\boxed{1}\boxed{2\boxed{3}\boxed{4}}", r"2\boxed{3}\boxed{4}"),
        (r"\boxed{5} \boxed{6\boxed{7}", "7"),  # the outer one is not closed
        (r"\boxed{\{5} \} {\boxed{6}", "6"),
    ],
)
def test_the_last_balanced_box_that_is_not_empty_is_the_answer(
    response: str, answer: str | None
) -> None:
    assert located(response).answer == answer


JOINTS = [", ", " and ", ", and ", "; ", "$, $", "$ and $", r" \text{ and } ", r",\ ",
          r",\quad ", ","]  # fmt: skip
APART = ["", " ", " nor ", ". ", ", or not ", " and then ", ", no, ", ", not ", "\n\n", ": ",
         " and x, "]  # fmt: skip


@given(
    st.lists(st.integers(-9, 9), min_size=2, max_size=6, unique=True),
    st.sampled_from(JOINTS),
    st.randoms(use_true_random=False),
)
def test_boxes_of_one_sentence_are_one_list_and_the_last_alone_answers_a_single_gold(
    values: list[int], joint: str, order: random.Random
) -> None:
    response = "So " + joint.join(f"\\boxed{{{value}}}" for value in values) + "."
    shuffled = order.sample(values, len(values))
    for gold in (", ".join(map(str, shuffled)), "\\{" + ",".join(map(str, shuffled)) + "\\}"):
        assert grade(response, gold).status == "correct"
        assert grade(f"\\boxed{{8}}. {response}", gold).status == "correct"
        assert grade(f"{response} Also \\boxed{{8}}.", gold).status == "wrong"
        assert grade(f"\\boxed{{77}}, {response[3:]}", gold).status == "wrong"
        assert grade(response, gold.replace(str(shuffled[0]), "77", 1)).status == "wrong"
    assert grade(response, f"({', '.join(map(str, values))})").status == "wrong"  # a tuple is one
    for kind in ("math", "integer"):
        for value in values:
            right = value == values[-1]
            assert grade(response, str(value), kind).status == ("correct" if right else "wrong")


@pytest.mark.parametrize("gap", APART)
def test_boxes_apart_are_not_one_answer(gap: str) -> None:
    assert boxes(f"\\boxed{{3}}{gap}\\boxed{{4}}") == ["4"]
    assert grade(f"\\boxed{{3}}{gap}\\boxed{{4}}", "3, 4").status == "wrong"
    last = "3" if "not" in gap or "nor" in gap else "4"
    assert grade(f"\\boxed{{3}}{gap}\\boxed{{4}}", last).status == "correct"
