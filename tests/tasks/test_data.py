"""Data sets as tasks: every problem once an epoch, and none that is held out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.errors import UserError
from ictcli.rewards import find_verifier
from ictcli.tasks import BENCHMARKS, TASKS, find_benchmark, find_task, shuffled_batch
from ictcli.tasks.data import is_heldout, read_jsonl
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
    found, domain = read_jsonl(write(tmp_path / "data.jsonl", rows))
    assert [(p.id, p.prompt, p.gold) for p in found] == [
        ("1", "a", "1"),
        ("2", "b", "2"),
        ("3", "c", "3"),
    ]
    assert domain().verify is find_verifier("integer")


def test_golds_that_are_not_all_integers_are_judged_as_mathematics(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "a", "gold": g} for g in ("1", r"\frac{1}{2}")]
    _, domain = read_jsonl(write(tmp_path / "data.jsonl", rows))
    assert domain().verify is find_verifier("math")


def test_blank_lines_are_passed_over_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('\n{"prompt": "a", "gold": "1"}\n\n{"prompt": "b", "gold": "2"}')
    assert [p.id for p in read_jsonl(str(path))[0]] == ["2", "4"]


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\u2029"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, character: str) -> None:
    path = tmp_path / "data.jsonl"
    row = {"prompt": f"a{character}b", "gold": "1"}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [p.prompt for p in read_jsonl(str(path))[0]] == [f"a{character}b"]


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
