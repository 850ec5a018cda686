"""Laws of the task `ledger`: problems, solutions, verdicts and tokens."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_texts import STYLES, Style, is_sound, make_tokenizer, solution

from ictcli.tasks.custom import read_custom
from ictcli.tasks.ledger.problem import (
    DAYS,
    DOMAIN,
    NUMBERS,
    SETTINGS,
    Ledger,
    Setting,
    make_ledger,
    prompt_of,
)
from ictcli.types import Problem

EXAMPLES = Path(__file__).parents[2] / "examples" / "own-data"
seeds = st.integers(0, 2**32)
styles = st.builds(
    Style,
    phrases=st.integers(0, 6),
    echoes=st.integers(0, 3),
    drift=st.sampled_from([0.0, 0.3, 1.0]),
)


def written(
    seed: int, style: Style = STYLES["ledger"], right: float = 0.5
) -> tuple[Ledger, str, str]:
    rng = random.Random(seed)
    ledger = make_ledger(rng, SETTINGS["ledger"])
    return ledger, prompt_of(ledger, Setting()), solution(ledger, style, rng, right, right)


def verdict(response: str, gold: str) -> str:
    return DOMAIN.judge([Problem("p", "", gold)], [response])[0].status


@pytest.mark.parametrize("right", [1.0, 0.0])
@given(style=styles, seed=seeds)
def test_right_days_give_the_gold_from_any_start_and_each_wrong_one_costs_one(
    right: float, style: Style, seed: int
) -> None:
    ledger, prompt, response = written(seed, style, right)
    gold = sum(days for _, days in ledger.entries) % 7
    found = gold if right else (gold - len(ledger.entries)) % 7
    assert ledger.answer == gold and is_sound(prompt, response)
    assert verdict(response, str(found)) == "correct"
    assert verdict(response, str((found + 1) % 7)) == "wrong"


@given(style=styles, seed=seeds, other=seeds)
def test_all_solutions_of_a_problem_begin_on_the_day_that_its_question_names(
    style: Style, seed: int, other: int
) -> None:
    ledger, prompt, response = written(seed, style)
    again = solution(ledger, style, random.Random(other), 0.5, 0.5)
    first_lines = {text.split("\n")[1] for text in (response, again)}
    assert first_lines == {f"Say {ledger.name} begins on {prompt.split()[-1]}"}
    shifted = re.sub("|".join(DAYS), lambda day: DAYS[DAYS.index(day[0]) - 1], response)
    assert is_sound(prompt, again) and not is_sound(prompt, shifted)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer()


def test_the_example_of_own_data_is_right_and_readable(tokenizer: Any) -> None:
    parts = [read_custom(str(EXAMPLES / f"{name}.csv")) for name in ("train", "test")]
    problems = [problem for part in parts for problem in part.problems]
    assert [len(part.problems) for part in parts] == [48, 32]
    assert len({problem.prompt for problem in problems}) == 80
    for problem in problems:
        days = re.findall(r"for (\w+) days?", problem.prompt)
        assert sum(map(NUMBERS.index, days)) % 7 == int(problem.gold)
        ids = tokenizer(problem.prompt)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == problem.prompt
