"""Laws of reward functions in TRL's form: what they get, and what becomes of what they give."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from written import write

from ictcli.errors import UserError
from ictcli.recipe import load_recipe
from ictcli.rewards import Limits, find_verifier, grade
from ictcli.rewards.shaping import mean_reward
from ictcli.tasks import Domain, Task
from ictcli.tasks.custom import read_custom
from ictcli.tasks.prepare import task_of, try_functions

SEEN: list[dict[str, Any]] = []


def everything(prompts: Any, completions: Any, **columns: Any) -> list[float]:
    SEEN.append({"prompts": prompts, "completions": completions, **columns})
    return [0.5] * len(completions)


def test_a_function_gets_the_rows_of_a_problem_as_lists_of_equal_length() -> None:
    SEEN.clear()
    one, two = {"prompt": "p", "level": 3, "tags": ["a"]}, {"prompt": "q", "level": None}
    asked, columns = ["P", "P", "Q"], [one, one, two]
    found = grade(["x", "y", "z"], ["1", "1", "2"], everything, questions=asked, columns=columns)
    assert [v.score for v in found] == [0.5] * 3 and {v.status for v in found} == {"wrong"}
    first = {"prompts": ["P", "P"], "completions": ["x", "y"], "question": ["P", "P"]}
    last = {"prompts": ["Q"], "completions": ["z"], "question": ["Q"]}
    assert [
        {**first, "gold": ["1", "1"], "level": [3, 3], "tags": [["a"], ["a"]]},
        {**last, "gold": ["2"], "level": [None]},
    ] == SEEN


def test_a_function_gets_what_it_names_and_its_rewards_become_verdicts() -> None:
    """None and NaN are no reward."""
    given, columns = [1, 2.5, True, 0.99, -1.0, None, float("nan")], {"level": 3, "other": 1}

    def rewards(completions: Any, level: Any) -> list[Any]:
        return given if level == [3] * 7 else []

    found = grade(["x"] * 7, ["g"] * 7, rewards, columns=[columns] * 7)
    assert [v.status for v in found] == ["correct"] * 3 + ["wrong"] * 2 + ["unparsed"] * 2
    assert [v.reward for v in found] == [1, 2.5, 1, 0.99, -1, 0, 0]
    assert mean_reward(found) == pytest.approx(4.49 / 5)
    assert mean_reward(found[-2:]) is None and not any(v.failed for v in found)


BAD = [[1.0], None, 3.0, ["x", "y"], [float("inf"), 0.0], [0.0, -1e101], "11", {0: 1.0, 1: 1.0}]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_list_of_rewards_fails_for_the_group_alone(bad: Any) -> None:
    def rewards(prompts: Sequence[str], completions: Sequence[str]) -> Any:
        return bad if prompts[0] == "bad" else [1.0] * len(prompts)

    questions = ["bad", "bad", "good"]
    found = grade(["x"] * 3, ["g"] * 3, rewards, questions=questions)
    assert [v.failed for v in found] == [True, True, False]
    assert [v.status for v in found] == ["unparsed", "unparsed", "correct"]


FILE = """
import os

def near(prompts, completions, places, **kwargs):
    if prompts[0] == "slow":
        while True:
            pass
    if prompts[0] == "raise":
        raise KeyError(prompts[0])
    return [1.0 if text == place else None for text, place in zip(completions, places)]

async def later(prompts, completions):
    return [float(prompt) for prompt in prompts]

def forks(prompts, completions):
    os.fork()
    return [float(prompt) for prompt in prompts]

def empties(prompts, completions):
    completions.clear()
    return []

def wants(completions, difficulty):
    return [0.0] * len(completions)
"""


LIMITS = Limits(seconds=0.3, workers=1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions") / "mine.py"
    path.write_text(FILE)
    return path


def test_in_a_worker_what_hangs_or_raises_loses_its_group_alone(file: Path) -> None:
    asked = ["fine", "fine", "slow", "slow", "raise"]
    places = [{"places": str(n)} for n in range(3)]
    columns = [places[0], places[0], places[1], places[1], places[2]]  # a problem is one object
    more: Any = {"questions": asked, "columns": columns, "limits": LIMITS}
    found = grade(["0", "1", "2", "3", "4"], ["g"] * 5, f"{file}:near", **more)
    assert [v.status for v in found] == ["correct", "unparsed", "timeout", "timeout", "unparsed"]
    assert [v.failed for v in found] == [False, False, False, False, True]
    (verdict,) = grade(["x"], ["g"], f"{file}:empties", limits=LIMITS)
    assert verdict.failed and "gave 0 rewards for 1 completions" in verdict.reason


@pytest.mark.parametrize("name", ["later", "forks"])
def test_an_async_function_and_one_that_forks_reward_each_answer_once(
    file: Path, name: str
) -> None:
    for first in (0, 10):  # a second answer to a call would be taken for one to the next
        asked = [str(first + n) for n in range(6)]
        found = grade(["x"] * 6, ["g"] * 6, f"{file}:{name}", questions=asked, limits=LIMITS)
        assert [v.score for v in found] == list(map(float, asked))


def test_an_interrupt_is_no_failure_of_a_function() -> None:
    def interrupted(completions: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(["x"], ["g"], interrupted)


def test_columns_of_a_file_reach_the_function_that_takes_them(file: Path, tmp_path: Path) -> None:
    rows = "".join(f'"{n}+0?",{n},{n % 7}\n' for n in range(60))
    (tmp_path / "data.csv").write_text("question,answer,places\n" + rows)

    def task_by(*keys: str) -> Task:
        return task_of(load_recipe("grpo", [f"task={tmp_path / 'data.csv'}", *keys]))

    for key in ("reward", "eval.verifier", "reward.functions"):
        task = task_by(f"{key}={file}:near")
        assert all("places" in p.columns for p in (*task.train, *task.held))
    task = task_by(f"reward={file}:near")
    (problem,) = task.heldout(1)
    found = task.domain.judge([problem], [problem.columns["places"], "no"])
    assert [v.status for v in found] == ["correct", "unparsed"]
    assert find_verifier(f"{file}:near").needs == ("places",)
    assert not find_verifier("integer").in_groups
    with refused("needs the column 'difficulty', ", " only question, gold, answer"):
        task_by(f"reward={file}:wants")
    both = load_recipe("grpo", [f"reward.functions={file}:near,{file}:wants"]).reward
    assert both.functions == (f"{file}:near", f"{file}:wants")


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1?"}]


@pytest.mark.parametrize(
    ("column", "messages", "asked"),
    [
        ("prompt", CHAT, CHAT),
        ("prompt", CHAT[1:], CHAT[1:]),
        ("messages", [*CHAT, {"role": "assistant", "content": "2"}], CHAT),
        ("conversations", [{"from": "human", "value": "1+1?"}], CHAT[1:]),
    ],
)
def test_a_conversation_in_any_column_reaches_a_function_as_messages(
    tmp_path: Path, column: str, messages: Any, asked: Any
) -> None:
    row = {column: messages, "answer": "2", "level": 3}
    (problem,) = read_custom(write(tmp_path, [row])).problems
    SEEN.clear()
    Domain(everything).judge([problem], ["x"])
    (seen,) = SEEN
    assert seen["prompts"] == [asked] and (seen["level"], seen["gold"]) == ([3], ["2"])
    assert seen["completions"] == [[{"role": "assistant", "content": "x"}]]


CHATS = """
def last(prompts, completions, gold, **kwargs):
    assert prompts[0][-1]["role"] == "user"
    return [float(chat[0]["content"] == right) for chat, right in zip(completions, gold)]

def broken(completions, **kwargs):
    scores = {}
    return [scores[text] for text in completions]
"""


def test_a_function_of_chats_judges_plain_questions_and_a_broken_one_is_named_before_training(
    tmp_path: Path,
) -> None:
    (tmp_path / "chats.py").write_text(CHATS)
    write(tmp_path, [{"question": f"{n}+1?", "answer": n + 1} for n in range(60)])
    keys = [f"task={tmp_path / 'rows.jsonl'}", f"reward={tmp_path / 'chats.py'}:last"]
    recipe = load_recipe("grpo", keys)
    task = task_of(recipe)
    try_functions(recipe, task)
    found = task.domain.judge(task.held[:1], [task.held[0].gold, ""])
    assert [verdict.status for verdict in found] == ["correct", "wrong"]
    for key in ("reward", "eval.verifier", "reward.functions"):
        recipe = load_recipe("grpo", [keys[0], f"{key}={tmp_path / 'chats.py'}:broken"])
        words = r"The function broken fails on .*KeyError: .*chats.py, line 8"
        with pytest.raises(UserError, match=words):
            try_functions(recipe, task_of(recipe))
