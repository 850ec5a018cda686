"""The rules of docs/verifier.md: every row of its tables, and its lists of words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ictcli.rewards import grade
from ictcli.rewards.maths import vocabulary

PAGE = Path(__file__).parents[2] / "docs" / "verifier.md"
ONE_SIDED = ("time", "whole text")
"""Rules that look at the gold alone."""


def spans(cell: str) -> list[str]:
    """The texts in code spans of a table's cell."""
    return [span.replace("\\|", "|").strip() for span in re.findall(r"`([^`]+)`", cell)]


def rows() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """(rule, gold, right answers, wrong answers) of each row of the page's tables."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| rule"):
            rule, gold, right, wrong = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield rule.strip(), spans(gold)[0], spans(right), spans(wrong)


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_row_of_the_page_holds(row: tuple[str, str, list[str], list[str]]) -> None:
    rule, gold, right, wrong = row
    assert right and (wrong or rule == "word")
    answers = [*right, *wrong]
    verdicts = grade([f"\\boxed{{{answer}}}" for answer in answers], [gold] * len(answers))
    accepted = [a for a, one in zip(answers, verdicts, strict=True) if one.status == "correct"]
    assert accepted == right
    if rule not in ONE_SIDED:
        verdicts = grade([f"\\boxed{{{gold}}}"] * len(answers), answers)
        accepted = [a for a, one in zip(answers, verdicts, strict=True) if one.status == "correct"]
        assert accepted == right


def test_every_rule_is_described_and_has_a_row() -> None:
    described = re.findall(r"^- \*\*([a-z -]+)\*\*:", PAGE.read_text(encoding="utf-8"), re.M)
    assert set(described) == {rule for rule, *_ in rows()} and len(set(described)) == len(described)


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Symbols of units", vocabulary.SYMBOLS),
        ("Symbols in plain letters", vocabulary.PLAIN),
        ("Short words in plain letters", vocabulary.SHORT),
        ("Spelled units", " ".join(vocabulary.SPELLED.values()).split()),
        ("Spelled units with prefixes", vocabulary.PREFIXED),
        ("Prefixes", vocabulary.WORD_PREFIXES),
        ("Things", vocabulary.COUNTED),
        ("Nouns after `of` or before a thing", vocabulary.MASS),
        ("Adjectives", vocabulary.ADJECTIVES),
        ("Colours", vocabulary.COLOURS),
        ("Names of values", vocabulary.NAMES),
        ("Nouns beside a name", vocabulary.SHAPES),
    ],
)
def test_the_page_prints_the_list(title: str, words: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    block = page.partition(f"**{title}**:\n")[2].partition("\n\n")[0]
    assert set(re.split(r",\s+", block.strip())) == set(words)
