"""Laws of the task `chain`: problems, solutions and verdicts."""

import random

import pytest
from chain_texts import solution
from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards.builtin import chain
from ictcli.tasks.chain.problem import make_expression, value

seeds = st.integers(0, 2**32)
expressions = st.builds(lambda seed: make_expression(random.Random(seed), (2, 10)), seeds)


@given(expressions)
def test_value_is_integer_arithmetic_modulo_ten(expression: str) -> None:
    assert value(expression) == eval(expression, {"__builtins__": {}}) % 10


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("3+8-5;1-5;6#", "correct"),
        ("6#", "correct"),
        ("3+8-5;1-5;7#", "wrong"),
        ("16#", "unparsed"),
        ("6#\n", "unparsed"),
        ("\u0666#", "unparsed"),
    ],
)
def test_only_the_final_digit_counts(response: str, verdict: str) -> None:
    assert chain(response, "6").status == verdict


@given(expressions, seeds)
def test_a_sound_solution_is_correct(expression: str, seed: int) -> None:
    response = solution(expression, random.Random(seed), 1.0)
    assert chain(response, str(value(expression))).status == "correct"
