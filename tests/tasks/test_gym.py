"""Tasks of reasoning-gym: the same problems for a seed, none of those held out to train on, and the
library's own scores from our workers."""

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusing import refused

from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.recipe.generator import joined, parted
from ictcli.rewards import Limits, Verdict
from ictcli.tasks import Task, find_benchmark, find_task
from ictcli.tasks.gym import HELDOUT_SEED, gym_task
from ictcli.tasks.prepare import described, heldout, task_of
from ictcli.tasks.split import digest_of, key_of
from ictcli.types import Problem

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="reasoning-gym is not installed"
)
KINDS = ["chain_sum", "spell_backward", "countdown:max_numbers=4", "number_sorting", "n_queens"]
NAMES = [f"gym:{kind}:size=8" for kind in KINDS]
SMALL = "gym:chain_sum:max_digits=1:max_terms=2:size=400"
"""100 sums and 100 differences: fewer problems than are drawn."""


def library() -> Any:
    """reasoning-gym takes a second to load, and every worker collects every file."""
    return importlib.import_module("reasoning_gym")


def recipe(*settings: str) -> Recipe:
    return load_recipe("grpo", ["model=builtin:chain", *settings])


@pytest.mark.parametrize("name", NAMES)
def test_problems_are_the_library_s_own_for_the_recorded_seeds(name: str) -> None:
    kind, options = parted(name)
    task = find_task(name)
    for problems, seed in ((task.train, 0), (task.heldout(4), HELDOUT_SEED)):
        made = library().create_dataset(kind, **{**options, "seed": seed})
        for problem in problems:
            entry = made[int(problem.id.rpartition("-")[2])]
            assert (problem.prompt, problem.gold) == (entry["question"], entry["answer"])
    assert task.source["seeds"] == {"train": 0, "heldout": HELDOUT_SEED}
    gym_task.cache_clear()
    assert digest_of(find_task(name).train) == digest_of(task.train)


def entry_of(problem: Problem) -> Any:
    from ictcli.rewards.gym import generator

    at = problem.columns
    return generator(at["gym"], at["seed"], at["size"])[at["index"]]


def test_a_score_sees_nothing_of_the_data_but_which_problem_it_is(tmp_path: Path) -> None:
    """reasoning-gym evaluates a part of these problems as Python; the data may be a stranger's."""
    task, mark = find_task("gym:bitwise_arithmetic:size=8"), tmp_path / "mark"
    problem = task.train[0]
    assert entry_of(problem)["question"] == problem.prompt
    code = {"problem": f"__import__('pathlib').Path({str(mark)!r}).touch() or 1"}
    hostile = replace(problem, columns={**problem.columns, "answer": "1", "metadata": code})
    verdicts = judged(task, [hostile, hostile], [f"\\boxed{{{problem.gold}}}", "\\boxed{1}"])
    assert [each.status for each in verdicts] == ["correct", "wrong"] and not mark.exists()


def judged(task: Task, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
    """By one worker: the library takes a second of each."""
    return replace(task.domain, limits=Limits(workers=1)).judge(problems, texts)


def test_the_library_s_golds_get_1_in_a_worker_and_other_answers_its_own_score() -> None:
    problems = [find_task(name).train[0] for name in NAMES]
    texts = [f"So it is \\boxed{{{problem.gold}}}." for problem in problems]
    task = find_task(NAMES[1])
    assert [one.score for one in judged(task, problems, texts)] == [1.0] * len(problems)
    half = problems[1].gold[:-1]
    for problem, kind, answers in (
        (problems[1], "spell_backward", [half]),
        (problems[2], "countdown", [f"({problems[2].gold}) + 0 * 1", "1 + 1"]),  # computed
    ):
        score = library().get_score_answer_fn(kind)
        entry = entry_of(problem)
        found = judged(task, [problem], [f"\\boxed{{{answer}}}" for answer in answers])
        assert [one.score for one in found] == [score(answer, entry) for answer in answers]
    verdict, none = judged(task, [problems[1]], [f"\\boxed{{{half}}}", problems[1].gold])
    assert verdict == Verdict("wrong", half, score=verdict.reward) and 0 < verdict.reward < 1
    assert none.status == "correct"


@pytest.mark.parametrize("name", [NAMES[2], NAMES[4]])
def test_no_answer_runs_as_code(name: str, tmp_path: Path) -> None:
    task, mark = find_task(name), tmp_path / "mark"
    code = f"__import__('pathlib').Path({str(mark)!r}).write_text('')"
    listed = f"[[{code}]]"
    verdicts = judged(task, task.train[:1], [f"#### {code}", f"#### {listed}"])
    assert not mark.exists()
    assert [verdict.status for verdict in verdicts] == ["unparsed"] * 2


def test_the_last_number_or_line_counts_where_all_answers_are_such_and_else_the_box() -> None:
    """A reward.pattern replaces either, and so does prompt.suffix what is asked for."""
    numbers, words = (find_task(f"gym:{kind}:size=8") for kind in ("products", "spell_backward"))
    problem, word = replace(numbers.train[0], gold="1"), words.train[0]
    large = f"{int(numbers.train[0].gold):,}"
    texts = [f"2 + 2 = 4, so it is {large}.", f"It is \\boxed{{{large}}}.", "It is 4.", "No idea."]
    verdicts = judged(numbers, [problem], texts)
    assert [v.status for v in verdicts] == ["correct", "correct", "wrong", "unparsed"]
    lines = (
        "{}",
        "So:\n\n**Answer: {}**\n",
        "It is \\boxed{{{}}}.\nDone.",
        "#### {}",
        "It is {}.",
        "",
    )
    read = judged(words, [word], [line.format(word.gold) for line in lines])
    assert [v.status for v in read] == ["correct"] * 4 + ["wrong", "unparsed"]
    assert "a line that holds the answer alone" in words.domain.suffix
    own = task_of(recipe(f"task={numbers.name}", "reward.pattern=A: (.*)"))
    assert own.domain.pattern == "A: (.*)"


def test_each_task_has_a_sentence() -> None:
    from ictcli.tasks.registry import named

    sentence = r".+(?<! by)(?<! with)(?<![:,-])\."
    assert [row for row in named() if not re.fullmatch(sentence, row["about"])] == []


def test_a_small_generator_holds_out_a_part_of_its_problems_and_trains_on_none_of_them() -> None:
    run = recipe(f"task={SMALL}")
    task = task_of(run)
    train, held = ({key_of(p.prompt) for p in part} for part in (task.train, heldout(run, task)))
    assert len(train) == len(task.train)
    assert len(held) == len(task.heldout(1000)) > 8
    assert not train & held
    drawn = find_task(SMALL)
    among = sum(key_of(problem.prompt) in held for problem in drawn.train)
    assert task.left_out == {"repeated": 400 - len(drawn.train), "held_out": among}
    assert 4 * among <= len(drawn.train)
    assert described(task, heldout(run, task))["version"]


def test_options_are_keys_or_part_of_the_name_and_a_recipe_reads_back_equal(tmp_path: Path) -> None:
    typed = recipe("task.max_terms=3", "task=gym:chain_sum", "task.min_terms=2")
    assert typed.task == "gym:chain_sum:max_terms=3:min_terms=2"
    assert recipe("task=gym:chain_sum:min_terms=2", "task.max_terms=3") == typed
    file = tmp_path / "r.toml"
    file.write_text(to_toml(typed))
    assert load_recipe(file) == typed
    file.write_text(to_toml(typed).replace(f'"{typed.task}"', '{name = "gym:chain_sum"}'))
    assert load_recipe(file, ["task.max_terms=3", "task.min_terms=2"]) == typed
    assert load_recipe(file, ["task=gym:gcd"]).task == "gym:gcd"
    assert find_benchmark("gym:chain_sum:min_terms=2:max_terms=3").name == typed.task


@pytest.mark.parametrize("value", [1, -2.5, True, "a b", "3", "a:b=1", ["+", "-"], 'x"'])
def test_the_name_of_a_task_keeps_its_options(value: object) -> None:
    name = joined("some_kind", {"one": value, "two": 2})
    assert parted(name) == ("some_kind", {"one": value, "two": 2})


SENTENCES = {
    "gym:chain_su": "reasoning-gym has no generator 'chain_su' (did you mean chain_sum?).",
    "gym:chain_sum:min_term=2": "no option 'min_term' (did you mean min_terms?)",
    "gym:chain_sum:min_terms=9": "made with these options: max_terms must be >= min_terms.",
    "gym:chain_sum:min_terms=nine": "min_terms takes values like 2, not 'nine'.",
    "gym:chain_sum:size=true": "size takes values like 2048, not True.",
    "gym:chain_sum:size=9:size=10": "has the option 'size' twice.",
    "gym:chain_sum:size=1": "size must be 8 or more",
    "gym:word_ladder": "depend on Python's hash seed.",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_cannot_be_made_is_refused_in_a_sentence(name: str) -> None:
    with refused(SENTENCES[name], hint="min_terms=2, max_terms=6, " * ("min_term=" in name)):
        find_task(name)
