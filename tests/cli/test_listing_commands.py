"""`ictcli recipes`, `methods`, `tasks` and `doctor`; a generator of reasoning-gym as a task."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import Processes

from ictcli.algorithm.methods import METHODS
from ictcli.recipe import recipe_keys, shipped_recipes

needs_gym = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="reasoning-gym is not installed"
)


def test_recipes_are_listed_with_what_they_are_about(ictcli: Processes) -> None:
    found = ictcli.json("recipes", "ls")
    assert {row["recipe"] for row in found} == {*shipped_recipes()}
    assert all(len(row["about"]) > 10 and row["about"][0] != "#" for row in found)
    table = ictcli.run("recipes", "ls").out
    lines = table.splitlines()[1:]  # piped, a record is one line, for grep
    assert all(row["recipe"] in line for row, line in zip(found, lines, strict=True))


def test_a_copied_recipe_trains_alike_and_replaces_none(ictcli: Processes, tmp_path: Path) -> None:
    shown = ictcli.run("recipes", "show", "quickstart").out
    for target, path in (("mine", "mine.toml"), (".", "quickstart.toml")):
        ended = ictcli.done("recipes", "cp", "quickstart", target)
        assert ended.err.endswith(f"ictcli train {path}\n")
        assert (tmp_path / path).read_text(encoding="utf-8") == shown
    dry = [
        ictcli.run("train", recipe, "--dry-run").out
        for recipe in (tmp_path / "mine.toml", "quickstart")
    ]
    assert dry[0] == dry[1] != ""
    (tmp_path / "mine.toml").write_text("mine")
    assert "mine.toml exists already" in ictcli.refused("recipes", "cp", "quickstart", "mine.toml")
    assert (tmp_path / "mine.toml").read_text() == "mine"


def test_a_copied_recipe_finds_the_data_that_ships_with_it(ictcli: Processes) -> None:
    name = "smollm2-135m-invoices"
    ictcli.done("recipes", "cp", name, "mine.toml")
    dry = [ictcli.run("train", recipe, "--dry-run").out for recipe in ("mine.toml", name)]
    assert dry[0] == dry[1] != ""


def test_every_method_is_listed_with_its_source(ictcli: Processes) -> None:
    found = ictcli.json("methods")
    own = [name for name, each in METHODS.items() if each.rule.__module__.startswith("ictcli.")]
    assert [row["method"] for row in found] == own
    assert all(row["trains"] and row["source"] for row in found)
    assert {row["method"]: row["options"] for row in found}["grpo"] == "-"


def test_the_doctor_says_which_engines_run(ictcli: Processes) -> None:
    ended = ictcli.run("doctor", "--json")
    found = {row["check"]: row for row in json.loads(ended.out)}
    assert {"ictcli", "platform", "engine torch", "engine mlx", "disk"} <= found.keys()
    states = {found[f"engine {name}"]["state"] for name in ("torch", "mlx")}
    assert states <= {"ok", "missing", "failed"}
    assert ended.code == (0 if "ok" in states else 3)
    assert found["hub"]["finding"] == "offline, by environment variable"


def test_every_key_is_explained(ictcli: Processes) -> None:
    told = ictcli.json("recipes", "keys")
    names = [key for key in recipe_keys() if not key.startswith("method")]
    assert sorted(one["key"] for one in told) == sorted([*names, "method"])
    assert all(one["meaning"] and one["values"] for one in told)
    some = ictcli.run("recipes", "keys", "alarms", "eval.columns")
    assert "eval.columns.gold" in some.out and "prompt.suffix" not in some.out
    assert "No key of a recipe has nosuchkey" in ictcli.refused("recipes", "keys", "nosuchkey")


@needs_gym
def test_tasks_are_listed_a_line_each_and_shown(ictcli: Processes) -> None:
    lines = ictcli.done("tasks", "ls").out.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    assert {"chain", "gsm8k", "math500", "gym:chain_sum"} <= set(names)
    assert len(names) == len(set(names))
    told = ictcli.done("tasks", "show", "gym:gcd:size=40", "--json").out
    shown = json.loads(told)
    assert shown["options"]["size"] == 40
    assert shown["options"]["min_numbers"] == 2
    assert shown["answer"].isdigit()
