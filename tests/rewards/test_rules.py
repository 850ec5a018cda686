"""The rules of rules.md: every row of its tables and of docs/verifiers.md, and its lists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ictcli.rewards import Verdict, grade
from ictcli.rewards.maths import vocabulary
from ictcli.rewards.maths.units import changes_value, unit_name
from ictcli.rewards.verifiers import UNFINISHED

PAGE = Path(__file__).with_name("rules.md").read_text(encoding="utf-8")
DOCS = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text(encoding="utf-8")
EXAMPLES = DOCS.partition("| rule |")[2].partition("\n\n")[0]
DESCRIBED = re.findall(r"^- \*\*([a-z -]+)\*\*:", PAGE, re.M)
"""The rules that it has a paragraph on."""
ONE_SIDED = ("time", "whole text", "choice", "form", "copy", "asked")
"""Rules that look at the gold alone."""
EQUALITY = ("expression",)
"""Rules whose rows say what is equal, finished or not."""


def equal(verdict: Verdict) -> bool:
    return verdict.status == "correct" or verdict.reason == UNFINISHED


def spans(cell: str) -> list[str]:
    return [span.replace("\\|", "|").strip() for span in re.findall(r"`([^`]+)`", cell)]


def rows() -> Iterator[tuple[str, list[str], list[str], list[str]]]:
    """(rule, gold and the question if there is one, right answers, wrong answers) of each row."""
    for line in (*PAGE.splitlines(), *EXAMPLES.splitlines()[1:]):
        if line.startswith("| ") and not line.startswith("| rule"):
            rule, gold, right, wrong = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield rule.strip(), spans(gold), spans(right), spans(wrong)


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: f"{row[0]}: {row[1][0]}")
def test_a_row_of_the_page_holds(row: tuple[str, list[str], list[str], list[str]]) -> None:
    rule, (gold, *questions), right, wrong = row
    assert right and (wrong or rule == "word")
    answers = [*right, *wrong]
    kind, around = ("choice", "{}") if rule == "choice" else ("math", "\\boxed{{{}}}")
    responses, golds = [around.format(answer) for answer in answers], [gold] * len(answers)
    verdicts = grade(responses, golds, kind, questions=questions * len(answers))
    accepted = [
        answer
        for answer, one in zip(answers, verdicts, strict=True)
        if one.status == "correct" or (rule in EQUALITY and equal(one))
    ]
    assert accepted == right
    if rule not in ONE_SIDED:
        verdicts = grade([f"\\boxed{{{gold}}}"] * len(answers), answers)
        assert [a for a, one in zip(answers, verdicts, strict=True) if equal(one)] == right


def test_every_rule_is_described_and_has_a_row() -> None:
    assert {*DESCRIBED} == {rule for rule, *_ in rows()} and len({*DESCRIBED}) == len(DESCRIBED)


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Symbols of units", vocabulary.SYMBOLS),
        ("Symbols in plain letters", vocabulary.PLAIN),
        ("Spelled units", " ".join(vocabulary.SPELLED.values()).split()),
        ("Spelled units with prefixes", vocabulary.PREFIXED),
        ("Prefixes", vocabulary.WORD_PREFIXES),
        ("Numbers", vocabulary.NUMBERS),
        ("Negations and doubts", vocabulary.NEGATIONS),
        ("Comparisons and conditions", vocabulary.COMPARISONS),
        ("Operations", vocabulary.OPERATIONS),
        ("After a value", vocabulary.AFTER),
    ],
)
def test_the_page_prints_the_list(title: str, words: list[str]) -> None:
    block = PAGE.partition(f"**{title}**:\n")[2].partition("\n\n")[0]
    assert set(" ".join(block.split()).split(", ")) == set(words)


@given(st.from_regex(r"([bdfglmprst][aeiou]){2,4}[nlrs]", fullmatch=True), st.integers(2, 99))
def test_an_unknown_noun_after_a_number_says_nothing(noun: str, value: int) -> None:
    assume(not changes_value(noun) and unit_name(noun) is None)
    for answer in (
        f"{value} {noun}",
        f"{value}\\text{{ {noun}}}",
        f"\\text{{The {noun} is }}{value}",
    ):
        assert grade(f"\\boxed{{{answer}}}", f"{value}").status == "correct"
        assert grade(f"\\boxed{{{answer}}}", f"{value + 1}").status == "wrong"
        verdict = grade(f"\\boxed{{{answer}}}", f"{value}\\text{{ cm}}")
        assert verdict.status == ("correct" if "The" in answer else "wrong")


def test_no_word_that_changes_a_value_is_left_out() -> None:
    listed = (vocabulary.NUMBERS, vocabulary.NEGATIONS, vocabulary.COMPARISONS)
    words = [word for words in (*listed, vocabulary.OPERATIONS) for word in words]
    answers = [f"\\boxed{{7\\text{{ {word}}}}}" for word in words]
    answers += [f"\\boxed{{\\text{{The {word} elves are }} 7}}" for word in words]
    answers += [f"\\boxed{{7\\text{{ {word}}}}}" for word in vocabulary.AFTER]
    assert not any(one.status == "correct" for one in grade(answers, ["7"] * len(answers)))
