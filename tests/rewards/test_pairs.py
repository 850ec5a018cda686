"""Equality of mathematical answers, on labelled pairs (pairs.jsonl, responses.jsonl)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ictcli.rewards import Verdict, grade
from ictcli.rewards.builtin import as_integer, math_at_once
from tests.rewards import families
from tests.rewards.test_rules import equal

HERE = Path(__file__).parent
REAL = HERE.parents[2] / "shared" / "data" / "gsm8k_model_solutions"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def test_no_pair_is_wrongly_equal_and_none_wrongly_different() -> None:
    pairs = rows("pairs.jsonl")
    assert len(pairs) >= 2000 and {pair["same"] for pair in pairs} == {True, False}
    found = grade([f"\\boxed{{{pair['answer']}}}" for pair in pairs], [p["gold"] for p in pairs])
    wrong = [
        (pair["gold"], pair["answer"], pair["same"], verdict.status)
        for pair, verdict in zip(pairs, found, strict=True)
        if (verdict.status == "correct") != pair["same"]
    ]
    assert wrong == []


def test_equality_is_symmetric_where_no_side_is_a_named_value() -> None:
    """Whether a text is a time or a ratio is for the gold to say, and what is left to do."""
    pairs = [
        pair
        for pair in rows("pairs.jsonl")
        if not re.search(r"=|approx", pair["gold"] + pair["answer"])
        and pair["rule"] not in ("time", "ratio")
    ]
    forth = grade([f"\\boxed{{{p['answer']}}}" for p in pairs], [p["gold"] for p in pairs])
    back = grade([f"\\boxed{{{p['gold']}}}" for p in pairs], [p["answer"] for p in pairs])
    assert [equal(one) for one in forth] == [equal(one) for one in back]


def test_every_pair_names_the_rule_that_decides_it() -> None:
    page = (HERE.parents[1] / "docs" / "verifier.md").read_text(encoding="utf-8")
    assert {pair["rule"] for pair in rows("pairs.jsonl")} <= set(
        re.findall(r"^- \*\*([a-z -]+)\*\*:", page, re.M)
    )


def test_the_pairs_of_the_families_are_in_the_file() -> None:
    by_rule = [pair for pair in rows("pairs.jsonl") if pair["why"] == "by rule"]
    assert by_rule == families.generated()


def test_integer_judges_as_math_does() -> None:
    """It takes whole golds alone: their unit and name count as in any other."""
    whole = [pair for pair in rows("pairs.jsonl") if as_integer(pair["gold"]) is not None]
    answers = [f"\\boxed{{{pair['answer']}}}" for pair in whole]
    for gold, others in ((r"5\text{ cm}", [r"5\text{ m}", "5", "6"]), ("x=4", ["y=4", "4", "x=4"])):
        whole += [{"gold": gold}] * len(others)
        answers += [f"\\boxed{{{other}}}" for other in others]
    golds = [pair["gold"] for pair in whole]
    found = grade(answers, golds, "integer")
    assert len(whole) > 400 and found == grade(answers, golds)
    assert [one.status == "correct" for one in found[-6:]] == [
        False,
        True,
        False,
        False,
        True,
        True,
    ]


def test_no_answer_is_right_for_two_integers() -> None:
    """A hedge would be: what pays for several golds says none of them."""
    answers = [row["answer"] for row in rows("pairs.jsonl")][::9]
    for answer in answers:
        golds = [
            n for n in range(1, 13) if math_at_once(answer, str(n)) == Verdict("correct", answer)
        ]
        assert len(golds) < 2, (answer, golds)


def test_every_gold_equals_itself_and_is_readable() -> None:
    golds = list(dict.fromkeys(pair["gold"] for pair in rows("pairs.jsonl")))
    found = grade([f"\\boxed{{{gold}}}" for gold in golds], golds)
    assert {one.status for one in found} == {"correct"}


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


DEFECTS = [  # of math-verify 0.9.0
    ("2516_8", "2516_9"),
    (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
    ("4", r"4\sqrt(2)"),
    ("1-1/e", "1+1/e"),
    ("6", "2(3)+1"),
    (r"5", "2(3)"),
    (r"2\cos 3", r"2\cos 3t"),
    (r"\sin x^3", r"\sin x \cdot x^2"),
    ("X", "x"),
    ("5", "2 3"),
    ("0.3333333", r"\frac{1}{3}"),
    (r"10\text{ cm}", r"10\text{ m}"),
]


@pytest.mark.parametrize(("gold", "answer"), DEFECTS)
def test_what_math_verify_takes_for_equal_is_not(gold: str, answer: str) -> None:
    assert grade(f"\\boxed{{{answer}}}", gold).status != "correct"


@pytest.mark.parametrize(
    ("response", "gold", "status"),
    [
        ("I get 12, but then", "12", "unparsed"),  # cut: no box
        ("the answer is 12", "12", "unparsed"),
        (r"\boxed{3} or \boxed{4}", "3, 4", "correct"),
        (r"\boxed{3} but \boxed{4}", "3, 4", "wrong"),
        (r"\boxed{3} or \boxed{4}", "4", "correct"),
        (r"\boxed{18 dollars}", "18", "correct"),
        (r"\boxed{x \in [-2,7]}", r"x \in [-2,7]", "correct"),  # golds, verbatim
        (r"\boxed{10,\!080}", r"10,\!080", "correct"),
        (r"\boxed{52_8}", "52_8", "correct"),
        (r"\boxed{\frac43}", r"\frac43", "correct"),
    ],
)
def test_what_math_verify_extracts_wrongly_is_right(response: str, gold: str, status: str) -> None:
    assert grade(response, gold).status == status


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data is not there")
def test_it_agrees_with_the_labels_of_real_solutions() -> None:
    """5,276 solutions of four models to GSM8K's test set, whose last line is `A: N`."""
    lines = (REAL / "example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    responses: list[str] = []
    golds: list[str] = []
    labels: list[bool] = []
    for row in map(json.loads, lines):
        for solution in (value for value in row.values() if isinstance(value, dict)):
            responses.append(solution["solution"])
            golds.append(row["ground_truth"].rpartition("A:")[2].strip())
            labels.append(solution["is_correct"])
    assert len(responses) == 5276
    found = grade(responses, golds, "integer", pattern="^A: (.*)$")
    assert [one.status == "correct" for one in found] == labels
