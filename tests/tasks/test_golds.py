"""Golds of a data set: letters, indices and texts of choices, and what the verifier can read."""

import shlex
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from refusing import refused
from written import sums, write

from ictcli.errors import UserError
from ictcli.recipe.data import ColumnSettings
from ictcli.rewards import find_verifier, grade
from ictcli.tasks import find_benchmark, find_task
from ictcli.tasks.custom import read_custom
from ictcli.tasks.golds import verifier_of
from ictcli.tasks.split import digest_of


@pytest.mark.parametrize(
    ("choices", "gold", "expected"),
    [
        (["x", "y", "z"], "z", "C"),  # a text
        ([5, 1, 7], "1", "B"),  # a text and an index, which agree
        (["A", "B", "C"], "B", "B"),
        ([2, 3, 4], 4, "C"),  # no index of three
        (["1/2", "x", "y"], "so\n#### 1/2", "A"),
        ([1, 2, 3, 0], 1, "the index"),
        (["the", "a", "an"], "a", "letter"),
        (["x", "x", "y"], "x", "text of 2"),
    ],
)
def test_a_gold_may_be_the_text_of_a_choice_unless_it_says_two_things(
    tmp_path: Path, choices: list[object], gold: object, expected: str
) -> None:
    name = write(tmp_path, [{"prompt": "a?", "choices": choices, "gold": gold}])
    if len(expected) == 1:
        assert [p.gold for p in find_benchmark(name).problems(None)] == [expected]
    else:
        with pytest.raises(UserError, match=rf"line 1 has a gold.* that is the.*{expected}"):
            find_benchmark(name)


def test_golds_that_are_letters_are_choices_and_their_options_are_shown(tmp_path: Path) -> None:
    asked = [{"prompt": f"{n}?", "gold": "(A)" if n else "D"} for n in range(5)]
    own = read_custom(write(tmp_path, asked))
    assert own.verifier == "choice" and own.problems[0].prompt == "0?"
    for options in (["w", "x", "y", 1], {"D": 1, "C": "y", "B": "x", "A": "w", "E": None}):
        rows = [{**row, "options": options} for row in asked]
        own = read_custom(write(tmp_path, rows))
        assert own.verifier == "choice" and own.problems[0].choices == ("w", "x", "y", "1")
        assert own.problems[0].prompt == "0?\n(A) w\n(B) x\n(C) y\n(D) 1"
        assert [p.gold for p in own.problems] == ["D", "A", "A", "A", "A"]
    numbers = read_custom(write(tmp_path, [{**row, "gold": 5, "options": [5, 6]} for row in asked]))
    assert numbers.verifier == "integer" and numbers.problems[0].prompt == "0?"


@pytest.mark.parametrize("by_text", [False, True])
def test_numeric_golds_are_indices_or_texts_in_a_whole_file(tmp_path: Path, by_text: bool) -> None:
    dice = Random(0)
    orders, places = [dice.sample(range(6), 4) for _ in range(50)], dice.choices(range(4), k=50)
    rows = [
        {"prompt": f"{n}?", "choices": order, "gold": order[place] if by_text else place}
        for n, (order, place) in enumerate(zip(orders, places, strict=True))
    ]
    found = read_custom(write(tmp_path, rows)).problems
    assert [problem.gold for problem in found] == ["ABCD"[place] for place in places]


def test_golds_that_the_verifier_cannot_read_are_left_out_and_told_of(tmp_path: Path) -> None:
    golds = ["}{", *map(str, range(60))]
    name = write(tmp_path, [{"prompt": f"p{i}", "gold": gold} for i, gold in enumerate(golds)])
    task = find_task(name)
    assert len(task.train) + len(task.held) == 60
    assert len(task.notes) == 1 and task.notes[0].startswith("1 of the 61 problems of")
    assert task.notes[0].endswith("math cannot read their golds. The first: 1 ('}{').")
    source = {"file": "rows.jsonl", "sha256": sha256(Path(name).read_bytes()).hexdigest()}
    assert task.source == find_benchmark(name).source == source
    name = write(tmp_path, [{"prompt": f"p{i}", "gold": "}{"} for i in range(60)])
    for find in (find_task, find_benchmark):
        with refused("verifier math can read none of the golds of"):
            find(name)
    (tmp_path / "mine.py").write_text("def grade(response, gold):\n    return response == gold\n")
    task = find_task(name, reward=f"{tmp_path / 'mine.py'}:grade")
    assert len(task.train) + len(task.held) == 60 and not task.notes
    assert grade("}{", "}{", task.domain.verify).status == "correct"


@pytest.mark.parametrize(
    ("golds", "kind"),
    [
        (("4", "-1,000"), "integer"),
        (("karst", "Navy blue", "l'eau", "stra\N{LATIN SMALL LETTER SHARP S}e."), "text"),
        (("yes", "no"), "text"),
        (("x", "y"), "math"),  # symbols
        (("AB", "BC", "ABC"), "math"),
        (("tac", "god", "karst", "dwarf"), "text"),
        (("x", "x-y", "n!", "undefined"), "math"),
        (("sin x", "does not exist"), "math"),
        (("A", "B", "none"), "math"),
        (("karst", "4"), "math"),
        ((r"\pi", "abc"), "math"),
    ],
)
def test_the_golds_choose_the_verifier(golds: tuple[str, ...], kind: str) -> None:
    assert verifier_of(golds) == kind


def test_placeholders_are_no_golds(tmp_path: Path) -> None:
    """They are named, counted and left out, up to a tenth."""
    empty = ["N/A", "nan", "None", " - ", "null", "", None]
    rows = [{"prompt": f"{n}?", "gold": gold} for n, gold in enumerate(empty)]
    bench = find_benchmark(write(tmp_path, [*rows, *sums(range(70))]))
    assert [p.gold for p in bench.problems(None)] == [str(n + 1) for n in range(70)]
    assert bench.domain.verify is find_verifier("integer")
    assert bench.notes[0].startswith("7 of 77 rows left out") and "'N/A'" in bench.notes[0]
    with refused("as its gold: 'N/A'. 7 of 67 rows cannot be read", hint="leave such rows out"):
        find_benchmark(write(tmp_path, [*rows, *sums(range(60))]))
    choices = [{"prompt": "a?", "choices": ["x", "None"], "gold": "None"}]
    assert find_benchmark(write(tmp_path, choices)).problems(1)[0].gold == "B"


@pytest.mark.parametrize(
    "form",
    [
        "She has {0} left. The answer is **{0}**.",
        "First add them up.\nFinal answer: {0}",
        "So there are 7 - 3 = {0} of them in all",
    ],
)
def test_golds_in_sentences_are_read_by_the_pattern_that_is_proposed(
    tmp_path: Path, form: str
) -> None:
    numbers = [*map(str, range(40)), "-5", "1,234.5", "1/2"]
    golds = [form.format(number) for number in numbers]
    name = write(tmp_path, [{"prompt": f"{n}?", "gold": gold} for n, gold in enumerate(golds)])
    with refused("43 of 43 different golds", "are sentences, not answers") as caught:
        find_benchmark(name)
    setting = shlex.split(caught.value.hint or "")[0]
    assert setting.startswith("columns.gold_pattern=")
    columns = ColumnSettings(gold_pattern=setting.partition("=")[2])
    assert [p.gold for p in find_benchmark(name, columns=columns).problems(None)] == numbers
    few = [{"prompt": "a?", "gold": golds[0]}, *sums(range(20))]
    assert len(find_benchmark(write(tmp_path, few)).problems(None)) == 20


def test_golds_that_no_pattern_reads_are_words_or_judged_by_what_is_named(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "gold": f"in {word} we trust"} for n, word in enumerate("ab" * 40)]
    name = write(tmp_path, rows)
    with refused("are sentences", hint="reward.verifier=text"):
        find_task(name)
    assert find_task(name, reward="text").train


def test_any_of_several_golds_counts(tmp_path: Path) -> None:
    rows = [{"prompt": "3+5", "gold": ["8", "eight", None, "N/A"]}, {"prompt": "1+1", "gold": [2]}]
    bench = find_benchmark(write(tmp_path, rows))
    both, single = problems = bench.problems(None)
    assert (both.golds, single.golds) == (("8", "eight"), ("2",))
    texts = [rf"\boxed{{{answer}}}" for answer in ("8", "eight", "2", "8", "eight", "2")]
    verdicts = bench.domain.judge(problems, texts)
    assert [v.status == "correct" for v in verdicts] == [True, True, False, False, False, True]
    assert digest_of([both]) != digest_of([replace(both, more_golds=())])
