"""Data sets as tasks: every problem once an epoch, and none that is held out."""

import json
import math
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.errors import UserError
from ictcli.rewards import find_verifier
from ictcli.tasks import BENCHMARKS, TASKS, find_benchmark, find_task, shuffled_batch
from ictcli.tasks.custom import read_custom
from ictcli.tasks.split import is_heldout
from ictcli.types import Problem


def problems(count: int) -> list[Problem]:
    return [Problem(str(i), f"problem {i}", str(i)) for i in range(count)]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5))
def test_each_epoch_takes_every_problem_exactly_once(size: int, n: int, seed: int) -> None:
    steps = -(-3 * size // n)
    drawn = [
        p for step in range(1, steps + 1) for p in shuffled_batch(problems(size), seed, step, n)
    ]
    for epoch in range(3):
        taken = Counter(p.id for p in drawn[epoch * size : (epoch + 1) * size])
        assert taken == {str(i): 1 for i in range(size)}


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    data = problems(30)
    forward = [shuffled_batch(data, 1, step, 4) for step in range(1, 20)]
    backward = [shuffled_batch(data, 1, step, 4) for step in range(19, 0, -1)]
    assert forward == backward[::-1]
    assert forward != [shuffled_batch(data, 2, step, 4) for step in range(1, 20)]
    drawn = [problem.id for batch in forward for problem in batch]
    assert drawn[:30] != drawn[30:60]  # each epoch has an order of its own


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@given(st.sets(st.text(min_size=1, max_size=8), min_size=60, max_size=90), st.integers(0, 3))
def test_no_held_out_prompt_is_ever_trained_on(
    tmp_path_factory: pytest.TempPathFactory, prompts: set[str], seed: int
) -> None:
    rows: list[dict[str, object]] = [{"prompt": p, "gold": "1"} for p in [*prompts, *prompts]]
    name = write(tmp_path_factory.getbasetemp() / "data.jsonl", rows)
    if not any(map(is_heldout, prompts)):
        with pytest.raises(UserError, match="too small"):
            find_task(name)
        return
    task = find_task(name)
    held = {p.prompt for p in task.heldout(1000)}
    trained = {p.prompt for step in range(1, 41) for p in task.batch(seed, step, 5)}
    assert held == {p for p in prompts if is_heldout(p)}
    assert trained == prompts - held


def test_about_one_prompt_in_sixteen_is_held_out() -> None:
    share = sum(is_heldout(f"problem {i}") for i in range(16_000)) / 16_000
    assert share == pytest.approx(1 / 16, rel=0.1)


def test_a_line_may_name_its_fields_in_several_ways(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": "a", "gold": "1"},
        {"question": "b", "answer": "so it is\n#### 2"},
        {"problem": "c", "gold": 3, "extra": None},
    ]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert [(p.id, p.prompt, p.gold) for p in bench.problems(None)] == [
        ("1", "a", "1"),
        ("2", "b", "2"),
        ("3", "c", "3"),
    ]
    assert bench.domain.verify is find_verifier("integer")


def test_the_gold_may_be_in_the_boxes_of_a_solution(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"problem": "a", "solution": r"so \boxed{1} or \boxed{\frac{1}{2}}."},
        {"problem": "b", "solution": r"\boxed{4}", "answer": "5"},
        {"problem": "c", "solution": r"\boxed{6}", "answer": None},
        {"problem": "d", "solution": "no idea"},
    ]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert [p.gold for p in bench.problems(None)] == [r"1, \frac{1}{2}", "5", "6"]
    assert "1 of the 4 problems" in bench.notes[0] and bench.notes[0].endswith(" math: 4.")
    assert bench.domain.verify is find_verifier("math")


def test_a_line_may_have_an_id_of_its_own(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "a", "gold": "1", "id": i} for i in ("x", None, 7)]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert [p.id for p in bench.problems(None)] == ["x", "2", "7"]
    with pytest.raises(UserError, match=r"data\.jsonl, line 4 has the id of an earlier problem"):
        find_benchmark(write(tmp_path / "data.jsonl", [*rows, rows[0]]))


def test_choices_are_put_under_the_question(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": "a?", "choices": ["x", " y "], "answer": gold}
        for gold in ("B", "(b)", 1, "1", "b.")
    ]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert bench.problems(None) == [
        Problem(str(i), "a?\n(A) x\n(B) y", "B", ("x", "y")) for i in range(1, 6)
    ]
    assert bench.domain.verify is find_verifier("choice")


@pytest.mark.parametrize(
    ("choices", "gold", "expected"),
    [
        (["x", "y", "z"], "z", "C"),  # a text
        ([5, 1, 7], "1", "B"),  # a text and an index, which agree
        (["A", "B", "C"], "B", "B"),
        ([2, 3, 4], 4, "C"),  # no index of three
        (["1/2", "x", "y"], "so\n#### 1/2", "A"),
        ([1, 2, 3, 0], "1", "index"),
        ([1, 2, 3, 0], 1, "index"),
        (["the", "a", "an"], "a", "letter"),
        (["x", "x", "y"], "x", "text of 2"),
    ],
)
def test_a_gold_may_be_the_text_of_a_choice_unless_it_says_two_things(
    tmp_path: Path, choices: list[object], gold: object, expected: str
) -> None:
    name = write(tmp_path / "d.jsonl", [{"prompt": "a?", "choices": choices, "gold": gold}])
    if len(expected) == 1:
        assert [p.gold for p in find_benchmark(name).problems(None)] == [expected]
    else:
        with pytest.raises(UserError, match=rf"line 1 has a gold.* that is the.*{expected}"):
            find_benchmark(name)


@pytest.mark.parametrize(
    ("gold", "words", "hint"),
    [
        (math.nan, "an empty gold", "fill it in, or leave the row out"),
        (None, "an empty gold", "fill it in, or leave the row out"),
        (math.inf, "a gold that is not finite", "write it as text, in quotes"),
    ],
)
def test_a_gold_that_is_no_number_is_missing(
    tmp_path: Path, gold: float | None, words: str, hint: str
) -> None:
    rows: list[dict[str, object]] = [{"prompt": "a?", "gold": 1}, {"prompt": "b?", "gold": gold}]
    with pytest.raises(UserError, match=f"line 2 has {words}") as caught:
        find_benchmark(write(tmp_path / "d.jsonl", rows))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("d.csv", "prompt;gold\n1+1;2\n", "line 1 parts its cells by semicolons"),
        ("d.csv", "prompt\tgold\n1+1\t2\n", "line 1 parts its cells by tabs"),
        ("d.jsonl", '[{"prompt": "1+1", "gold": 2}]\n', "line 1 is a list, and no object"),
        ("d.jsonl", '{"prompt": ["1+1"], "gold": 2}\n', "has a prompt that is a list, not text"),
        ("d.json", "{}", "d.json is a file of a kind that is not read"),
    ],
)
def test_a_file_of_another_form_is_told_what_it_is(
    tmp_path: Path, file: str, content: str, words: str
) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    for find in (find_task, find_benchmark):
        with pytest.raises(UserError, match=words):
            find(str(tmp_path / file))


def test_the_ending_of_a_file_is_read_in_any_case(tmp_path: Path) -> None:
    for name, content in (
        ("a.JSONL", '{"prompt": "1+1", "gold": 2}'),
        ("b.Csv", "prompt,gold\nx,2"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        (problem,) = find_benchmark(str(tmp_path / name)).problems(None)
        assert problem.gold == "2"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "a?", "choices": ["x", "y"], "answer": "C"}, "none of its 2 choices"),
        ({"question": "a?", "choices": ["x", "y"], "answer": 2}, "none of its 2 choices"),
        ({"question": "a?", "choices": ["x", "y"], "answer": -1}, "none of its 2 choices"),
        ({"question": "a?", "choices": ["x", "y"], "answer": "9" * 5000}, "none of its 2"),
        ({"question": "a?", "choices": ["x"], "answer": 0}, "no list of choices"),
        ({"question": "a?", "choices": "xy", "answer": 0}, "no list of choices"),
        ({"question": "a?", "choices": ["x", ["y"]], "answer": 0}, "no list of choices"),
        ({"question": "a?", "answer": "A"}, "no choices, and others have"),
        ({"question": "a?", "choices": ["x", "y"]}, "has no gold or answer"),
    ],
)
def test_a_line_with_faulty_choices_is_named(
    tmp_path: Path, row: dict[str, object], words: str
) -> None:
    good: dict[str, object] = {"question": "a?", "choices": ["x", "y"], "answer": 0}
    with pytest.raises(UserError, match=r"data\.jsonl, line 2 .*" + words):
        find_benchmark(write(tmp_path / "data.jsonl", [good, row]))


def test_golds_that_cannot_be_read_are_left_out_and_told_of(tmp_path: Path) -> None:
    golds = [r"\frac{1}{", *(str(i) for i in range(60))]
    rows: list[dict[str, object]] = [{"prompt": f"p{i}", "gold": g} for i, g in enumerate(golds)]
    name = write(tmp_path / "data.jsonl", rows)
    task = find_task(name)
    assert len(task.finite) == 60
    assert len(task.notes) == 1 and task.notes[0].startswith("1 of the 61 problems of")
    assert task.notes[0].endswith("unreadable to the verifier math: 1.")


def test_a_file_without_a_readable_gold_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": f"p{i}", "gold": "{"} for i in range(60)]
    name = write(tmp_path / "data.jsonl", rows)
    for find in (find_task, find_benchmark):
        with pytest.raises(UserError, match="verifier math can read none of the golds of"):
            find(name)


def test_golds_are_read_by_the_verifier_that_judges(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def grade(response, gold):\n    return response == gold\n")
    rows: list[dict[str, object]] = [{"prompt": f"p{i}", "gold": "}{"} for i in range(60)]
    name = write(tmp_path / "data.jsonl", rows)
    task = find_task(name, reward=f"{tmp_path / 'mine.py'}:grade")
    assert len(task.finite) == 60 and not task.notes
    assert task.domain.verify("}{", "}{").status == "correct"


def test_a_file_is_told_by_its_name_and_checksum(tmp_path: Path) -> None:
    name = write(tmp_path / "data.jsonl", [{"prompt": f"p{i}", "gold": "1"} for i in range(60)])
    source = {"file": "data.jsonl", "sha256": sha256(Path(name).read_bytes()).hexdigest()}
    assert find_task(name).source == find_benchmark(name).source == source


@pytest.mark.parametrize("name", ["chain", "data.jsonl"])
def test_data_that_cannot_stand_in_is_refused(name: str) -> None:
    for find in (find_task, find_benchmark):
        with pytest.raises(UserError, match=r"other\.jsonl cannot stand in for it"):
            find(name, data="other.jsonl")


def test_golds_that_are_not_all_integers_are_judged_as_mathematics(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "a", "gold": g} for g in ("1", r"\frac{1}{2}")]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert bench.domain.verify is find_verifier("math")


def test_blank_lines_are_passed_over_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('\n{"prompt": "a", "gold": "1"}\n\n{"prompt": "b", "gold": "2"}')
    assert [p.id for p in read_custom(str(path)).problems] == ["2", "4"]


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\u2029"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, character: str) -> None:
    path = tmp_path / "data.jsonl"
    row = {"prompt": f"a{character}b", "gold": "1"}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [p.prompt for p in read_custom(str(path)).problems] == [f"a{character}b"]


def test_a_benchmark_of_a_file_gives_its_first_problems(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": str(i), "gold": str(i)} for i in range(9)]
    bench = find_benchmark(write(tmp_path / "data.jsonl", rows))
    assert [p.prompt for p in bench.problems(4)] == ["0", "1", "2", "3"]
    assert len(bench.problems(None)) == 9


@pytest.mark.parametrize("name", ["chain", "chain-long"])
def test_a_built_in_benchmark_is_always_the_same(name: str) -> None:
    bench = BENCHMARKS[name]()
    found = bench.problems(40)
    assert found == BENCHMARKS[name]().problems(40)
    assert found[:10] == bench.problems(10)
    assert len({p.prompt for p in found}) == 40
    assert all(find_verifier("chain")(f"{p.gold}#", p.gold).status == "correct" for p in found)


def test_the_built_in_task_never_trains_on_its_held_out_problems() -> None:
    task = TASKS["chain"]()
    held = {p.prompt for p in task.heldout(4096)}
    for step in range(1, 101):
        batch = task.batch(0, step, 16)
        assert len({p.prompt for p in batch}) == 16
        assert not held & {p.prompt for p in batch}
    assert task.batch(0, 3, 16) == task.batch(0, 3, 16) != task.batch(1, 3, 16)
