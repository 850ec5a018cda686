"""A dry run refuses what a run would, and uses what is known of the prompts."""

import json
from pathlib import Path

import pytest

from ictcli.errors import UserError
from ictcli.planning.advice import check_memory
from ictcli.planning.preflight import preflight
from ictcli.recipe import load_recipe, shipped_recipes
from ictcli.tasks.prepare import task_of


def rows(folder: Path, n: int) -> str:
    path = folder / "d.jsonl"
    told = (json.dumps({"prompt": f"{i}+1=", "gold": i + 1}) + "\n" for i in range(n))
    path.write_text("".join(told), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=nothing"],
        ["task=none.jsonl"],
        ["reward.verifier=nothing"],
        ["task={d}", "columns.prompt=frage"],
        ["task=hub:me/mine", "eval.bench={d}", "eval.columns.gold=antwort"],
        ["eval.bench={d}", "eval.skip=1000"],
    ],
)
def test_what_a_run_refuses_a_dry_run_refuses(tmp_path: Path, overrides: list[str]) -> None:
    data = rows(tmp_path, 60)
    recipe = load_recipe("chain", [text.format(d=data) for text in overrides])
    with pytest.raises(UserError):
        preflight(recipe)


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_can_be_looked_at_without_a_network(name: str) -> None:
    preflight(load_recipe(name))


def test_max_tokens_must_leave_room_for_a_prompt() -> None:
    with pytest.raises(UserError, match="max_tokens = 100000 leaves a prompt no room"):
        preflight(load_recipe("chain", ["max_tokens=100000"]))


def test_data_of_the_hub_is_not_opened() -> None:
    assert "is not opened in a dry run" in preflight(load_recipe("chain", ["task=gsm8k"]))[0]
    assert not preflight(load_recipe("chain"))


@pytest.mark.parametrize(("asked", "skip"), [(2, 0), (2, 1), (8, 0), (500, 0), (500, 2)])
def test_a_small_held_out_part_is_noted(tmp_path: Path, asked: int, skip: int) -> None:
    over = [f"task={rows(tmp_path, 100)}", f"eval.problems={asked}", f"eval.skip={skip}"]
    task = task_of(load_recipe("chain", over))
    found = len(task.finite) - len(task.train) - skip
    told = [note for note in task.notes if f"has {found} held-out problem" in note]
    assert len(told) == (found < max(asked, 8))
    assert all(("asks for" in note) == (found < asked) for note in told)


def test_the_estimate_takes_prompts_as_long_as_they_may_be() -> None:
    def prompt_of(*overrides: str, prompt: int = 256) -> int:
        recipe = load_recipe("chain", ["engine.backend=torch", *overrides])
        estimate = check_memory(recipe, prompt=prompt).estimate
        assert estimate is not None
        return estimate.prompt

    bare = prompt_of()
    assert prompt_of("prompt.max_tokens=20") == 20 < bare == prompt_of("prompt.max_tokens=9999")
    assert prompt_of(prompt=30) == 30 and prompt_of("prompt.max_tokens=20", prompt=30) == 20
