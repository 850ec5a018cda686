"""The seven benchmarks, and the tasks GSM8K and MATH, from files with the columns of the hub's."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from written import write

from ictcli.rewards import find_verifier, grade
from ictcli.tasks import BOXED, find_benchmark, find_task
from ictcli.tasks.split import is_heldout
from ictcli.types import Problem

SECRET = "What is the airspeed of an unladen swallow?"


def golds(problems: list[Problem]) -> dict[str, str]:
    return {problem.id: problem.gold for problem in problems}


def test_math500_takes_the_answer_and_the_id_of_a_row(tmp_path: Path) -> None:
    row = {"solution": "s", "subject": "Algebra", "level": 2}
    rows = [
        {**row, "problem": "p", "answer": r"10,\!080", "unique_id": "test/algebra/1.json"},
        {**row, "problem": "q", "answer": r"\frac43", "unique_id": "test/algebra/2.json"},
        {**row, "problem": "r", "answer": "52_8", "unique_id": "test/algebra/1.json"},
        {**row, "problem": "s", "answer": r"x \in [-2,7]"},
    ]
    bench = find_benchmark("math500", write(tmp_path, rows))
    assert golds(bench.problems(None)) == {
        "test/algebra/1.json": r"10,\!080",
        "test/algebra/2.json": r"\frac43",
        "test/algebra/1.json#2": "52_8",
        "math500-3": r"x \in [-2,7]",
    }
    assert [p.prompt for p in bench.problems(2)] == ["p", "q"]
    assert bench.domain.verify is find_verifier("math") and bench.domain.suffix == BOXED
    assert bench.max_tokens == 2048 and not bench.notes and not bench.domain.private
    assert bench.source["file"] == "rows.jsonl" and len(bench.source["sha256"]) == 64


def question(subject: str, number: int, **more: Any) -> dict[str, Any]:
    row = {"question": f"{subject} {number}?", "subject": subject, "answer": number % 4}
    return {**row, "choices": ["w", "x", "y", "z"], **more}


def test_mmlu_stem_takes_its_subjects_in_turn(tmp_path: Path) -> None:
    sizes = {"virology": 1, "astronomy": 3, "physics": 2}
    rows = [question(subject, n) for subject, size in sizes.items() for n in range(size)]
    rows.append(question("physics", 7, answer="d"))
    bench = find_benchmark("mmlu_stem", write(tmp_path, rows))
    everything = bench.problems(None)
    ids = [f"{name}-0" for name in sorted(sizes)]
    ids += ["astronomy-1", "physics-1", "astronomy-2", "physics-2"]
    assert [(p.id, p.gold) for p in everything] == [*zip(ids, "AAABBCD", strict=True)]
    assert [bench.problems(n) for n in range(8)] == [everything[:n] for n in range(8)]
    assert everything[1] == Problem(
        "physics-0", "physics 0?\n(A) w\n(B) x\n(C) y\n(D) z", "A", ("w", "x", "y", "z")
    )
    assert bench.domain.verify is find_verifier("choice") and bench.domain.suffix == BOXED


def hard(number: int, **more: Any) -> dict[str, Any]:
    wrong = {f"Incorrect Answer {n}": f"wrong {number}.{n}" for n in (1, 2, 3)}
    row = {"Question": f"{SECRET} ({number})\n", "Correct Answer": f" right {number}\n", **wrong}
    return {**row, "Record ID": f"rec{number:04}", **more}


@pytest.mark.parametrize("name", ["gpqa", "gpqa_main", "gpqa_diamond"])
def test_gpqa_shuffles_choices_by_the_id_of_a_question(tmp_path: Path, name: str) -> None:
    rows = [hard(number) for number in range(400)]
    bench = find_benchmark(name, write(tmp_path, rows))
    problems = bench.problems(None)
    assert bench.name == name.removesuffix("_main") and bench.domain.private
    for number, p in enumerate(problems):
        assert p.id == f"rec{number:04}"
        assert p.choices["ABCD".index(p.gold)] == f"right {number}"
        assert set(p.choices) == {f"right {number}", *(f"wrong {number}.{n}" for n in (1, 2, 3))}
        lines = [f"({letter}) {text}" for letter, text in zip("ABCD", p.choices, strict=True)]
        assert p.prompt.split("\n") == [f"{SECRET} ({number})", *lines]
    assert "".join(p.gold for p in problems[:12]) == "CCBDCCADDBCC"  # on every machine
    counts = Counter(p.gold for p in problems)
    assert set(counts) == set("ABCD") and min(counts.values()) > 70
    again = find_benchmark(name, write(tmp_path, rows[::-1])).problems(None)
    assert again == problems[::-1]


@pytest.mark.parametrize("column", ["Question", "Incorrect Answer 3"])
def test_no_error_shows_a_private_question(tmp_path: Path, column: str) -> None:
    name = write(tmp_path, [hard(1), hard(2, **{column: None})])
    (tmp_path / "cut.jsonl").write_text(json.dumps(hard(1))[:-9])
    for file, words in (
        (name, f"rows.jsonl, line 2 has an empty {column}."),
        (str(tmp_path / "cut.jsonl"), "cut.jsonl, line 1 is not JSON"),
    ):
        with refused(words) as caught:
            find_benchmark("gpqa", file)
        assert "swallow" not in caught.value.message + caught.value.hint


def test_aime23_takes_the_rows_of_its_year(tmp_path: Path) -> None:
    page = "https://artofproblemsolving.com/wiki/index.php/{}_AIME_I_Problems/Problem_{}"
    rows = [
        {"id": n, "problem": f"p{n}", "solution": "s", "answer": str(n), "url": page.format(y, n)}
        for n, y in enumerate([2022, 2023, 2024, 2023])
    ]
    bench = find_benchmark("aime23", write(tmp_path, rows))
    assert golds(bench.problems(None)) == {"aime23-0": "1", "aime23-1": "3"}
    with refused("The data has no row of 2023"):
        find_benchmark("aime23", write(tmp_path, rows[::2][:2]))


@pytest.mark.parametrize("name", ["aime23", "aime24", "aime25"])
def test_aime_takes_golds_with_zeros_in_front_and_degrees_and_leaves_others_out(
    tmp_path: Path, name: str
) -> None:
    answers = ["025", r"336^\circ", *("about", "") * 4]
    column = "question" if name == "aime25" else "problem"
    rows = [{column: SECRET, "answer": answer} for answer in answers]
    bench = find_benchmark(name, write(tmp_path, rows))
    first, second = bench.problems(None)
    assert (first.id, second.id) == (f"{name}-0", f"{name}-1")
    assert grade(r"\boxed{25}", first.gold, bench.domain.verify).status == "correct"
    assert grade(r"\boxed{336}", second.gold, bench.domain.verify).status == "correct"
    (note,) = bench.notes
    assert note.startswith(f"8 of the 10 problems of {name} (rows.jsonl) left out")
    with refused(f"integer can read none of the golds of {name}"):
        find_benchmark(name, write(tmp_path, rows[2:]))


def test_the_task_math_takes_the_last_box_of_a_solution(tmp_path: Path) -> None:
    rows = [{"problem": f"p{i}", "solution": rf"\boxed{{{i}}}"} for i in range(60)]
    rows[3]["solution"] = r"first \boxed{7}, so \fbox{\frac{1}{2}}."
    rows[4]["solution"] = "by inspection"
    name = write(tmp_path, rows)
    task = find_task("math", data=name)
    problems = [*task.train, *task.held]
    assert len(problems) == 59 and golds(problems)["4"] == r"\frac{1}{2}"
    assert task.notes[0].endswith("5 ('').") and task.source["file"] == "rows.jsonl"
    assert all(is_heldout(p.prompt) for p in task.heldout(60))
    bench = find_benchmark("math", name)
    assert bench.problems(None) == task.heldout(60) and bench.notes == task.notes
