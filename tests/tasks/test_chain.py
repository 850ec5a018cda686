"""Laws of the task `chain`: problems, solutions, verdicts and forks."""

import random

import pytest
from chain_texts import solution
from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards.builtin import chain
from ictcli.tasks.chain.problem import apply, forks, make_expression, value

seeds = st.integers(0, 2**32)
expressions = st.builds(lambda seed: make_expression(random.Random(seed), (2, 10)), seeds)
garbage = st.text(alphabet="0123456789+-*=;#x ", max_size=60)


@given(expressions)
def test_value_is_integer_arithmetic_modulo_ten(expression: str) -> None:
    assert value(expression) == eval(expression, {"__builtins__": {}}) % 10


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("3+8-5;1-5;6#", "correct"),
        ("6#", "correct"),
        ("3+8-5;1-5;7#", "wrong"),
        ("3+8-5;1-5;6", "unparsed"),
        ("16#", "unparsed"),
        ("6##", "unparsed"),
        ("6#\n", "unparsed"),
        ("1-5;#", "unparsed"),
        ("\u0666#", "unparsed"),
        ("", "unparsed"),
    ],
)
def test_only_the_final_digit_counts(response: str, verdict: str) -> None:
    assert chain(response, "6").status == verdict


@pytest.mark.parametrize(
    ("prompt", "response", "positions"),
    [
        ("3+4*2-5=", "3+8-5;1-5;6#", [2, 6]),
        # 3*2 and 3+0 begin alike: the operator settles it, not the digit.
        ("3+0*2=", "3+0;3#", [1]),
        ("3+0*2=", "3*2;6#", [1]),
        # three candidates: a token that leaves two of them is no fork.
        ("1+1+1+1=", "2+1+1;3+1;4#", [0, 6]),
        ("1+1+1+1=", "1+2+1;3+1;4#", [2, 6]),
        # one distinct candidate, though two operators: no fork.
        ("1*1*1=", "1*1;1#", []),
        # wrong arithmetic: fits no candidate at once, and is the next current expression.
        ("3+4*2-5=", "9+8-5;7-5;2#", [0, 6]),
        # too short or ended too early: the terminator is what fits no candidate.
        ("3+4*2-5=", "3+;1-5;6#", [2]),
        ("3+4*2-5=", "3+#", [2]),
        # a malformed line has its own fork and ends the analysis.
        ("3+4*2-5=", "3+8x5;1-5;6#", [2]),
        ("3+4*2-5=", "3+8-5;1--5;6#", [2, 6]),
        ("3+4*2-5=", "x", [0]),
        ("3+4*2-5=", ";1-5;6#", [0]),
        ("3+4*2-5=", "3+8-5#1-5;6#", [2]),
        # a line of one digit leaves nothing to choose; a well-formed one goes on from there.
        ("3+4=", "7;1+2+4;3+4;7#", [8]),
        ("3+=", "3+8;1#", []),
    ],
)
def test_forks_worked_by_hand(prompt: str, response: str, positions: list[int]) -> None:
    assert forks(prompt, response) == positions


@given(expressions, seeds, garbage, st.integers(0, 90), st.integers(0, 90))
def test_a_step_of_any_text_has_at_most_one_fork_whatever_follows(
    expression: str, seed: int, tail: str, keep: int, cut: int
) -> None:
    prompt = expression + "="
    response = solution(expression, random.Random(seed), right=0.5)[:keep] + tail
    places = forks(prompt, response)
    steps = [response.count(";", 0, place) for place in places]
    assert steps == sorted(set(steps)) and all(0 <= place < len(response) for place in places)
    kept = [place for place in places if place < cut]
    assert forks(prompt, response[:cut]) == kept


@given(expressions, seeds, st.sampled_from([0.5, 1.0]))
def test_a_sound_step_has_a_fork_iff_it_has_a_choice(
    expression: str, seed: int, right: float
) -> None:
    response = solution(expression, random.Random(seed), right)
    choices, current = 0, expression
    for line in response[:-1].split(";"):
        choices += len({apply(current, i) for i in range(len(current) // 2)}) > 1
        current = line
    assert len(forks(expression + "=", response)) == choices
    if right == 1:
        assert chain(response, str(value(expression))).status == "correct"
