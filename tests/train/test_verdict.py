"""Laws of what `ictcli check` advises: the most specific cause, certain or said not to be."""

import re
import time
from itertools import count
from typing import Any

import pytest
from observing import Make

from ictcli.planning.advice import MemoryCheck
from ictcli.recipe import load_recipe
from ictcli.train.check import check
from ictcli.train.checked import Groups, ShownPrompt, Tried
from ictcli.train.verdict import verdict_of

MEMORY = MemoryCheck(None, "")
ANSWERS = ("correct", "wrong", "unparsed", "timeout", "truncated", "cut_unread", "cut_wrong")


def tried(groups: Groups, **answers: int) -> Tried:
    sampled = dict.fromkeys((*ANSWERS, "unended"), 0) | answers
    return Tried((), sampled, groups, {}, {}, 999, True, 1.0, 60.0, None)


def verdict(found: Tried, *typed: str) -> tuple[bool, str, tuple[str, ...]]:
    recipe = load_recipe("chain", ["group=8", "max_tokens=16", *typed])
    return verdict_of(recipe, MEMORY, found, worked=False, teachable=True)


WRONG = Groups(8, 0, 0, 8)


@pytest.mark.parametrize(
    ("groups", "answers", "sentence", "setting"),
    [
        (WRONG, {"wrong": 46, "unparsed": 18, "cut_unread": 18}, "46 of 64 .* but wrong", "g"),
        (WRONG, {"wrong": 4, "unparsed": 60, "cut_unread": 58}, "58 .* are cut at max_tokens", "s"),
        (WRONG, {"wrong": 4, "unparsed": 60, "cut_unread": 45}, "60 .* no readable answer", "s"),
        (Groups(8, 0, 8, 0), {"correct": 64}, "8 of 8 groups .* have only right responses", "g"),
        (Groups(30, 0, 15, 15), {"correct": 120, "wrong": 119, "unparsed": 1}, "15 of 30", "g"),
    ],
)
def test_the_verdict_names_the_most_specific_cause_and_a_change(
    groups: Groups, answers: dict[str, int], sentence: str, setting: str
) -> None:
    typed: tuple[str, ...] = ()
    for _ in range(2):  # what was tried is not advised again
        ready, text, changes = verdict(tried(groups, **answers), *typed)
        if typed and setting == "s":
            assert ready and text.startswith("Train: the supervised steps come first")
            continue
        begin = "Train with supervised steps first" if setting == "s" else "Not yet"
        assert ready == (setting == "s") and re.match(f"{begin}: {sentence}", text), text
        if typed and "wrong" in sentence:
            assert not changes
            continue
        assert changes[0].startswith(setting)
        assert load_recipe("chain", [*typed, *changes]) != load_recipe("chain", [*typed])
        typed = changes


def test_a_small_sample_and_a_large_one_give_no_opposite_verdicts() -> None:
    verdicts = [
        verdict(tried(Groups(n, k, 0, n - k), correct=2, wrong=8 * n - 2))[:2]
        for n, k in ((8, 1), (8, 2), (4, 1), (4, 2), (2, 0))
    ]
    for ready, text in verdicts:
        assert ready and "not certain" in text and "-" in text
    assert verdict(tried(Groups(8, 7, 0, 1), correct=20, wrong=44))[1].startswith("Train: 7 of 8")
    assert not verdict(tried(Groups(64, 2, 0, 62), correct=2, wrong=510))[0]


def test_answers_that_the_time_limit_cuts_are_not_cut_at_max_tokens(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, later, asked = time.perf_counter, [0.0], list[ShownPrompt]()
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + later[0])

    def heard(part: Any) -> None:
        if isinstance(part, ShownPrompt):
            asked.append(part)
            later[0] += 1000.0 * (len(asked) == 2)

    found = check(make("max_tokens=64")[0], 600.0, lambda text: None, heard).tried
    assert found is not None and len(asked) == 2
    assert (found.answers, found.sampled["unended"], found.groups.total) == (4, 4, 1)


def test_answers_without_a_whole_group_give_a_verdict_that_says_its_intervals() -> None:
    none = Groups()
    ready, text, changes = verdict(tried(none, unparsed=2))
    assert ready and text.startswith("Train with supervised steps first: 2 of 2 responses (16-100")
    assert "no group was completed" in text and changes == ("sft.data=task",)
    ready, text, _ = verdict(tried(none, correct=3, wrong=1))
    assert ready and "not certain: no group was" in text and "groups are" not in text
    ready, text, _ = verdict(tried(none, wrong=5))
    assert not ready and text.startswith("Probably not yet: 5 of 5 responses")
    assert verdict(tried(none, unended=8))[1].startswith("Not known")


def test_a_group_that_would_not_end_in_time_gives_way_to_fewer_answers_side_by_side(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls, asked = time.perf_counter, count(), list[ShownPrompt]()
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 10.0 * min(next(calls), 40))

    def heard(part: Any) -> None:
        asked.extend([part] * isinstance(part, ShownPrompt))

    recipe = make("max_tokens=64", "group=3", "seed=7")[0]  # which answers at some length
    found = check(recipe, 500.0, lambda text: None, heard).tried
    assert found is not None and found.answers and found.time and found.groups.total == 0
    assert len(set(asked)) == len(asked)  # what is asked again is not shown again
