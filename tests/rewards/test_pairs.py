"""Equality of mathematical answers, on labelled pairs (pairs.jsonl, responses.jsonl)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ictcli.rewards import Verdict, explain, grade
from ictcli.rewards.builtin import as_integer, math_at_once
from tests.conftest import PROFILE
from tests.rewards.test_rules import equal

HERE = Path(__file__).parent


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


PAIRS = [
    pair
    for number, pair in enumerate(rows("pairs.jsonl"))
    if PROFILE == "thorough" or number % (12 if pair["why"] == "by rule" else 3) == 0
]
"""A part of them at each push. Half of all were written by hand. In the others ("by rule") values
are drawn and written in the ways that a rule names: whether two are the same follows."""
ANSWERS = [f"\\boxed{{{pair['answer']}}}" for pair in PAIRS]


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return grade(ANSWERS, [pair["gold"] for pair in PAIRS])


def test_no_pair_is_wrongly_equal_and_none_wrongly_different(verdicts: list[Verdict]) -> None:
    assert {pair["same"] for pair in PAIRS} == {True, False}
    wrong = [
        (pair["gold"], pair["answer"], pair["same"], verdict.status)
        for pair, verdict in zip(PAIRS, verdicts, strict=True)
        if (verdict.status == "correct") != pair["same"]
    ]
    assert wrong == []


def test_equality_is_symmetric_where_no_side_is_a_named_value(verdicts: list[Verdict]) -> None:
    """Whether a text is a time or a ratio is for the gold to say, and what is left to do."""
    forth = {
        (pair["gold"], pair["answer"]): equal(verdict)
        for pair, verdict in zip(PAIRS, verdicts, strict=True)
        if (pair["same"] or PROFILE == "thorough")
        and not re.search(r"=|approx", pair["gold"] + pair["answer"])
        and pair["rule"] not in ("time", "ratio")
    }
    back = grade([f"\\boxed{{{gold}}}" for gold, _ in forth], [answer for _, answer in forth])
    assert list(forth.values()) == list(map(equal, back))


def test_to_explain_changes_no_verdict_and_tells_every_reading(verdicts: list[Verdict]) -> None:
    explanations = explain(ANSWERS[::5], [pair["gold"] for pair in PAIRS[::5]])
    assert [one.verdict for one in explanations] == verdicts[::5]
    for one in explanations:
        assert one.gold.meaning and one.source == "box"
        assert bool(one.answer.meaning) or one.verdict.status != "correct"
        assert "\ue000" not in one.answer.meaning + one.gold.meaning


def test_integer_judges_as_math_does(verdicts: list[Verdict]) -> None:
    """It takes whole golds alone: their unit and name count as in any other."""
    whole = [place for place, pair in enumerate(PAIRS) if as_integer(pair["gold"]) is not None]
    golds = [PAIRS[place]["gold"] for place in whole]
    found = grade([ANSWERS[place] for place in whole], golds, "integer")
    assert len(whole) > 130 and found == [verdicts[place] for place in whole]
    units = [r"5\text{ m}", "5", "6"]
    for gold, answers in ((r"5\text{ cm}", units), ("x=4", ["y=4", "4", "x=4"])):
        boxes = [f"\\boxed{{{answer}}}" for answer in answers]
        found = grade(boxes, [gold] * 3, "integer")
        assert found == grade(boxes, [gold] * 3)
        assert [one.status == "correct" for one in found] == [False, True, gold == "x=4"]


def test_no_answer_is_right_for_two_integers() -> None:
    """A hedge would be: what pays for several golds says none of them."""
    answers = [row["answer"] for row in PAIRS][::20]
    for answer in answers:
        golds = [
            n for n in range(1, 13) if math_at_once(answer, str(n)) == Verdict("correct", answer)
        ]
        assert len(golds) < 2, (answer, golds)


@pytest.mark.parametrize("kind", ["math", "integer", "choice"])
def test_whole_responses_are_read_as_labelled(kind: str) -> None:
    cases = [row for row in rows("responses.jsonl") if row["kind"] == kind]
    found = grade(
        [case["response"] for case in cases],
        [case["gold"] for case in cases],
        kind,
        choices=[case.get("choices", ()) for case in cases],
    )
    wrong = [
        (case["response"], case["gold"], case["status"], verdict)
        for case, verdict in zip(cases, found, strict=True)
        if verdict.status not in (case["status"], *case.get("also", ()))
    ]
    assert wrong == []
