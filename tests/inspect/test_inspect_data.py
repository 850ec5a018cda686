"""The data of `ictcli inspect`: what each method keeps, shades, tokens as text, and candidates."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from synthetic import GROUP, batch_of, recipe_of, record

from ictcli.algorithm.methods import find_method
from ictcli.algorithm.weights import group_advantage
from ictcli.inspect.group import GroupView, level
from ictcli.inspect.view import open_step
from ictcli.train.step import select


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded") / "run")


def groups_of(source: Path, *methods: str) -> list[GroupView]:
    view = open_step(source, methods=methods)
    return [view.group(prompt) for prompt in range(1, view.prompts + 1)]


@pytest.mark.parametrize("name", ["ict", "entropy20", "random", "stapo", "clip_cov", "frequent"])
def test_a_method_keeps_what_training_by_it_would(run: Path, name: str) -> None:
    batch = batch_of(20)
    advantage = group_advantage(batch.rewards, GROUP, scale=find_method(name).scaled_advantage)
    batch = replace(batch, advantage=advantage)
    expected = iter(select(recipe_of(f"method={name}"), batch, 20).kept)
    for group in groups_of(run, name):
        for rollout in group.rollouts:
            n = len(rollout.tokens)
            assert rollout.kept[name] == (row := next(expected))[:n].tolist()
            assert not row[n:].any()


def test_the_run_s_own_method_stands_first(run: Path, tmp_path: Path) -> None:
    group = groups_of(run)[0]
    assert [(m.name, m.trained) for m in group.methods][:2] == [("ict", True), ("entropy20", False)]
    assert group.methods[0].overlap_with_trained == 1.0 and group.shown == "ict"
    group = groups_of(record(tmp_path / "run", "warmup=25"))[0]
    assert [m.name for m in group.methods][:2] == ["trained", "ict"]
    assert "warm-up of 25" in group.methods[0].about and group.shown == "ict"
    for rollout in group.rollouts:
        assert all(rollout.kept["trained"]) and not all(rollout.kept["ict"])


def test_a_control_is_of_the_run_s_own_method_alone(run: Path, tmp_path: Path) -> None:
    of_control = groups_of(record(tmp_path / "run", "control=permuted"))
    assert all(group.methods[0].trained for group in of_control)
    kept = [
        {name: [rollout.kept[name] for group in groups for rollout in group.rollouts]}
        for name in ("entropy20", "ict")
        for groups in (of_control, groups_of(run))
    ]
    assert kept[0] == kept[1] and kept[2] != kept[3]


def test_a_method_without_its_statistics_is_told_and_how_to_record_them(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", "method=entropy20", uniqueness=False)
    group = groups_of(folder, "ict", "kl", "random")[0]
    assert "record.uniqueness=true" in group.missing["ict"]
    assert "did not record kl_from_mean and kl_to_mean" in group.missing["kl"]
    assert group.by == "entropy" and "random" in group.rollouts[0].kept
    with refused("uniqueness", hint="record.uniqueness=true"):
        open_step(folder, by="uniqueness").group()


def test_a_run_whose_plugin_is_gone_can_still_be_read(run: Path, tmp_path: Path) -> None:
    recipe = shutil.copytree(run, tmp_path / "run") / "recipe.toml"
    gone = recipe.read_text().replace("plugins = []", 'plugins = ["/gone.py"]')
    recipe.write_text(gone.replace('"ict"', '"mine"'))
    group = groups_of(recipe.parent)[0]
    assert "recipe.toml is not the file" in group.notes[0]
    assert "gone.py" in group.notes[1] and group.methods[0].name == "trained"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, 1))
def test_a_higher_value_never_has_a_lighter_shade(one: float, other: float, top: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= level(low, top) <= level(high, top) <= 5
    assert level(0.0, top) == 0 and level(top, top) == 5
