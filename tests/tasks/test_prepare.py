"""What a recipe trains on: nothing it is evaluated on, and nothing its prompt shows."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import make_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from written import write

from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.recipe.data import PromptSettings
from ictcli.tasks import Task, find_benchmark, find_task, shuffled_batch
from ictcli.tasks.ledger.problem import SETTINGS
from ictcli.tasks.prepare import advised_holdout, task_of
from ictcli.tasks.split import is_heldout, key_of
from ictcli.tasks.task import is_set_aside
from ictcli.tasks.unread import usable
from ictcli.types import Problem
from tests.cases import first

N = 80


def write_questions(
    folder: Path, prompts: list[str], name: str = "rows", **more: list[Any]
) -> None:
    rows = [{"question": p, "answer": f"so <<1+1=2>>\n#### {i}"} for i, p in enumerate(prompts)]
    columns = [{key: values[i] for key, values in more.items()} for i in range(len(rows))]
    write(folder, [{**row, **own} for row, own in zip(rows, columns, strict=True)], name=name)


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


asked = st.text(min_size=1, max_size=8).filter(str.strip)


@given(st.sets(asked, min_size=60, max_size=90), st.integers(0, 3))
def test_no_held_out_prompt_is_ever_trained_on_and_each_is_held_out_once(
    tmp_path_factory: pytest.TempPathFactory, prompts: set[str], seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    write_questions(folder, [*prompts, *prompts])
    name = str(folder / "rows.jsonl")
    if not any(map(is_heldout, prompts)):
        with refused("too small"):
            task_of(load_recipe("grpo", [f"task={name}"]))
    task = find_task(name)
    held = [key_of(p.prompt) for p in task.heldout(1000)]
    trained = {p.prompt for step in range(1, 41) for p in task.batch(seed, step, 5)}
    assert Counter(held) == Counter({key_of(p) for p in prompts if is_heldout(p)})
    assert trained == {p for p in prompts if not is_heldout(p)}
    half, name = {key_of(p) for p in prompts if is_heldout(p, 2)}, f"task={name}"
    if 0 < len(half) < len({*map(key_of, prompts)}):
        recipe = load_recipe("grpo", [name, "eval.holdout=2"])
        assert {key_of(p.prompt) for p in task_of(recipe).heldout(1000)} == half


@pytest.mark.parametrize("count", [60, 320, 5000])
def test_an_advised_holdout_holds_more_out_and_is_the_last(count: int, tmp_path: Path) -> None:
    write_questions(tmp_path, [f"what is {n}" for n in range(count)])
    recipe = load_recipe("grpo", [f"task={tmp_path / 'rows.jsonl'}", "eval.problems=64"])
    advised, held = advised_holdout(recipe, task := task_of(recipe)), len(task.heldout(1000))
    assert (advised is None) == (held >= 64)
    assert (f"eval.holdout={advised} " in " ".join(task.notes)) == (advised is not None)
    if advised:
        more = load_recipe("grpo", [f"task={tmp_path / 'rows.jsonl'}", f"eval.holdout={advised}"])
        assert advised_holdout(more, other := task_of(more)) is None
        assert len(other.heldout(1000)) > held


@pytest.mark.parametrize("name", first(["chain", *SETTINGS], 2))
def test_a_built_in_task_never_trains_on_its_held_out_problems(name: str) -> None:
    task = find_task(name)
    train, held = [task.batch(0, step, 32) for step in (1, 2)], task.heldout(64)
    trained, kept = {p.prompt for batch in train for p in batch}, {p.prompt for p in held}
    assert len(trained) == len(kept) == 64 and not trained & kept
    assert train == [find_task(name).batch(0, step, 32) for step in (1, 2)]
    assert task.batch(1, 1, 32) != train[0]
    assert find_benchmark(name).problems(64) == held and task.heldout(40) == held[:40]


def test_about_one_problem_in_sixteen_is_held_out() -> None:
    """Always the same ones: a change of the rule would mix the two parts."""
    drawn = [f"{n}+1" for n in range(20_000)]
    for rule in (is_heldout, is_set_aside):
        assert 0.055 < sum(map(rule, drawn)) / len(drawn) < 0.07
    assert is_set_aside("4+0+1*0*5*8") and not is_set_aside("3+4*2-5")


def recipe_of(folder: Path, *overrides: str) -> Recipe:
    (folder / "recipe.toml").write_text(
        'model = "builtin:chain"\ntask = "rows.jsonl"\nmethod = "grpo"\nsteps = 2\n'
    )
    return load_recipe(folder / "recipe.toml", overrides)


def numbered(n: int = N) -> list[str]:
    """Questions of 2 to 40 characters in a random order."""
    rng = random.Random(0)
    return [f"{i:03}" + "+1" * rng.randrange(20) for i in rng.sample(range(n), n)]


def epoch(task: Task, seed: int = 0, number: int = 0) -> list[Problem]:
    size = len(task.train)
    return task.batch(seed, number + 1, size)


WORDS = st.text(st.sampled_from("aAbB \t\nÀàß"), min_size=1, max_size=12)


@given(WORDS)
def test_copies_of_a_problem_have_one_key_and_are_on_one_side(text: str) -> None:
    copies = [text.upper(), text.lower(), f" {text}\n", "  ".join(text.split(" "))]
    assert {key_of(copy) for copy in copies} == {key_of(text)}
    assert {is_heldout(copy) for copy in copies} == {is_heldout(text)}
    assert key_of(text + "c") != key_of(text)


@given(st.sets(st.integers(0, N - 1), max_size=N // 2), st.sampled_from([str.upper, str.title]))
def test_no_problem_of_the_benchmark_is_trained_on(
    tmp_path_factory: pytest.TempPathFactory, shared: set[int], changed: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    prompts = [f"problem {i} of them" for i in range(N)]
    write_questions(folder, prompts)
    write_questions(folder, [f"{changed(prompts[i])} \n" for i in shared] + ["another"], "bench")
    task = task_of(recipe_of(folder, "eval.bench=bench.jsonl"))
    left = [prompt for i, prompt in enumerate(prompts) if i not in shared]
    assert sorted(p.prompt for p in epoch(task)) == sorted(left)  # none is held out but the shared
    out = len(shared)
    assert len(task.heldout(N)) == out + 1
    assert task.left_out == ({"held_out": out} if out else {})
    told = [note for note in task.notes if "left out of training" in note]
    assert [note.startswith(f"{out} of {N} problems") for note in told] == [True] * bool(out)


def test_shots_are_drawn_from_the_problems_to_train_on_and_then_not_trained_on(
    tmp_path: Path,
) -> None:
    write_questions(tmp_path, prompts := numbered())
    task, again, other = (
        task_of(recipe_of(tmp_path, "prompt.shots=3", f"seed={seed}")) for seed in (1, 1, 3)
    )
    shown = [example.prompt for example in task.prompt.examples]
    assert len(set(shown)) == 3 and not any(map(is_heldout, shown))
    rest = {p for p in prompts if not is_heldout(p)} - set(shown)
    assert {p.prompt for p in epoch(task)} == rest and task.left_out == {"examples": 3}
    for example in task.prompt.examples:
        gold = prompts.index(example.prompt)
        assert example.response == f"so\nThe answer is \\boxed{{{gold}}}."
    assert again.prompt == task.prompt and other.prompt.examples != task.prompt.examples


def test_examples_of_a_file_stand_in_the_recipe_and_are_not_trained_on(tmp_path: Path) -> None:
    write_questions(tmp_path, prompts := numbered())
    held, trained = (next(p for p in prompts if is_heldout(p) == each) for each in (True, False))
    write_questions(tmp_path, [f" {trained}"], "mine", response=["so"])
    recipe = recipe_of(tmp_path, "prompt.examples=mine.jsonl")
    (tmp_path / "mine.jsonl").unlink()
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert [(e.prompt, e.response) for e in recipe.prompt.examples] == [(f" {trained}", "so")]
    assert trained not in {p.prompt for p in epoch(task_of(recipe))}
    write_questions(tmp_path, [held], "mine", response=["so"])
    with refused("Example 1 of prompt.examples is a held-out problem"):
        task_of(recipe_of(tmp_path, "prompt.examples=mine.jsonl"))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["prompt.shots=2", 'prompt.examples=[{prompt="a", response="b"}]'], "not both"),
        (["prompt.shots=2", "reward.pattern=A: (.*)"], "answer in a box"),
        (["prompt.shots=80"], "would use them all"),
        (["prompt.shots=1", "task=chain"], "no worked responses"),
        (["eval.bench=rows.jsonl"], "none is left to train on"),
        (["eval.columns.gold=x"], "eval.bench, which is not set"),
        (["hub.split=x"], "rows.jsonl is a file"),
    ],
)
def test_what_cannot_be_prepared_is_refused(
    tmp_path: Path, overrides: list[str], words: str
) -> None:
    write_questions(tmp_path, numbered())
    with refused(words):
        task_of(recipe_of(tmp_path, *overrides))


ENGINE: Any = SimpleNamespace(tokenizer=make_tokenizer(), context=10_000)
"""One token a character; a line feed is none."""


@pytest.mark.parametrize("bench", [True, False])
def test_problems_with_a_longer_prompt_are_left_out_and_counted(
    tmp_path: Path, bench: bool
) -> None:
    write_questions(tmp_path, prompts := numbered())
    write_questions(tmp_path, [p.replace("+", "*") for p in prompts if "+" in p], "bench")
    overrides = ["eval.bench=bench.jsonl"] * bench
    prompt = ["prompt.max_tokens=20", 'prompt.suffix="1+1"']
    recipe = recipe_of(tmp_path, *overrides, *prompt)
    task = task_of(recipe)
    fitting = usable(ENGINE, task, recipe)
    for kind, before, after in (
        ("", task.train, fitting.train),
        ("heldout_", task.held, fitting.held),
    ):
        assert list(after) == [p for p in before if len(p.prompt) + 3 <= 20]
        out = len(before) - len(after)
        note = f"{out} of {len(before)} {'held-out ' * bool(kind)}problems left out: prompts longer"
        assert 0 < out < len(before) and note in " ".join(fitting.notes)
        assert fitting.left_out[f"{kind}too_long"] == out
    drawn = [len(p.prompt) for p in epoch(fitting)]
    assert sorted(drawn) == sorted(len(p.prompt) for p in fitting.train)
    with refused("Every prompt of ", " is longer than"):
        usable(ENGINE, replace(task, prompt=PromptSettings(max_tokens=2)), recipe)
