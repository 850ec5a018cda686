"""The data of `ictcli inspect`: what each method keeps, shades, tokens as text, and candidates."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from synthetic import GROUP, WORDS, batch_of, recipe_of, record

from ictcli.algorithm.methods import find_method
from ictcli.algorithm.weights import group_advantage
from ictcli.engine import Engine, build_engine
from ictcli.inspect.candidates import CandidateModel, saved_states
from ictcli.inspect.group import GroupView, level
from ictcli.inspect.recorded import find_recordings, read_step
from ictcli.inspect.session import Session, parse_places
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.tasks.prepare import task_of
from ictcli.train.sample import sample_batch
from ictcli.train.step import is_finite, optimise, select


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded") / "run")


def groups_of(source: Path, *methods: str) -> list[GroupView]:
    session = Session(source, methods)
    view = session.open()
    return [session.group(view, prompt) for prompt in range(1, view.prompts + 1)]


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
    missing = {m.name: m for m in group.missing}
    assert "record.uniqueness=true" in missing["ict"].sentence
    assert missing["kl"].statistics == ("kl_from_mean", "kl_to_mean")
    assert group.by == "entropy" and "random" in group.rollouts[0].kept
    with refused("uniqueness", hint="record.uniqueness=true"):
        Session(folder, by="uniqueness").open()


def test_a_file_is_read_with_its_run_s_recipe_or_none(run: Path, tmp_path: Path) -> None:
    file = run / "rollouts" / "step-000010.safetensors"
    inside = groups_of(file)[0]
    assert (inside.run, inside.step, inside.steps) == (str(run), 10, [10, 20])
    alone = tmp_path / "some.safetensors"
    shutil.copy(file, alone)
    outside = groups_of(alone)[0]
    assert (outside.run, outside.step, outside.steps) == (None, 10, [10])
    assert "default options" in outside.notes[0] and not outside.tokenizer
    for bare, rollout in zip(outside.rollouts, inside.rollouts, strict=True):
        assert bare.kept["ict"] == rollout.kept["ict"]
        assert bare.pieces == [f"<{token}>" for token in rollout.tokens]
        assert rollout.pieces == [WORDS[token] for token in rollout.tokens]
        assert "".join(rollout.pieces) == rollout.text
    with refused("No model", hint="--model"):
        _ = CandidateModel(read_step(find_recordings(alone), 10), None).loaded


def test_a_run_whose_plugin_is_gone_can_still_be_read(run: Path, tmp_path: Path) -> None:
    recipe = shutil.copytree(run, tmp_path / "run") / "recipe.toml"
    gone = recipe.read_text().replace("plugins = []", 'plugins = ["/gone.py"]')
    recipe.write_text(gone.replace('"ict"', '"mine"'))
    group = groups_of(recipe.parent)[0]
    assert "recipe.toml is not what" in group.notes[0]
    assert "gone.py" in group.notes[1] and group.methods[0].name == "trained"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, 1))
def test_a_higher_value_never_has_a_lighter_shade(one: float, other: float, top: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= level(low, top) <= level(high, top) <= 5
    assert level(0.0, top) == 0 and level(top, top) == 5


def test_places_outside_the_group_are_refused(run: Path) -> None:
    group = groups_of(run)[0]
    lengths = [len(rollout.tokens) for rollout in group.rollouts]
    assert parse_places(group, ["2:3", "2:3"]) == [(2, 3)]
    assert len(parse_places(group, ["all"])) == sum(lengths)
    for wrong in ("0:1", "5:1", "1:0", f"1:{lengths[0] + 1}", "1", "x"):
        with refused():
            parse_places(group, [wrong])


def test_the_gradient_of_a_step_is_shared_out_under_each_method(tmp_path: Path) -> None:
    group = groups_of(record(tmp_path / "run"), "ict", "grpo", "rft")[0]
    for method in group.methods:
        shares = method.gradient
        assert shares and set(shares) == {"right forks", "wrong forks", "sure", "rest"}
        assert sum(map(sum, shares.values())) == pytest.approx(1)
        if method.name == "rft":  # correct ones alone
            assert all(down == 0 for _, down in shares.values())


# Candidates


@pytest.fixture(scope="module")
def sampled(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Engine]:
    """Two steps that were sampled and recorded, a checkpoint after the first; the engine has the
    weights after it."""
    recipe = recipe_of(f"model={tiny_model}", "lr=0.01", "max_tokens=24", "temperature=0.7")
    engine = build_engine(recipe.model, recipe.engine, recipe.optimizer)
    task = task_of(recipe)
    folder = tmp_path_factory.mktemp("sampled") / "run"
    with Run.create(folder, recipe) as run:
        for step in (1, 2):
            batch = sample_batch(recipe, engine, task, step)
            batch.advantage[:] = np.linspace(-1, 1, len(batch.advantage))
            selection = select(recipe, batch, step)
            run.record_rollouts(step, batch, selection.kept, selection.weights)
            if step == 1:
                assert is_finite(optimise(recipe, engine, batch, selection, step))
                run.checkpoint(engine, State(step=1), 2)
    return folder, engine


@pytest.mark.parametrize(("step", "kind"), [(1, "before"), (2, "checkpoint")])
def test_the_weights_that_sampled_give_the_recorded_statistics(
    sampled: tuple[Path, Engine], step: int, kind: str
) -> None:
    recorded = read_step(find_recordings(sampled[0]), step)
    model = CandidateModel(recorded, None)
    rollouts = recorded.batch.rollouts
    found = model.at(1, range(int(rollouts.lengths[4:8].max())))
    assert model.loaded[1].exact and model.loaded[1].kind == kind
    assert "weights that sampled" in model.loaded[1].sentence
    for position in found:
        t = position["position"] - 1
        assert position["recorded_gap"] < 1e-4
        live = {str(row + 1) for row in range(4) if rollouts.lengths[4 + row] > t}
        assert set(position["rows"]) == live
        for row, likeliest in position["rows"].items():
            u = rollouts.stats["uniqueness"][3 + int(row), t]
            assert likeliest["uniqueness"] == pytest.approx(u, abs=1e-4)
            p = [candidate["p"] for candidate in likeliest["candidates"]]
            assert p == sorted(p, reverse=True) and sum(p) <= 1 + 1e-9


def test_the_mean_is_of_rollouts_that_reach_it(sampled: tuple[Path, Engine]) -> None:
    recorded = read_step(find_recordings(sampled[0]), 2)
    group = recorded.batch.rollouts.groups(2, 3)
    t = int(group.lengths.min())  # one has ended
    where = np.zeros(group.tokens.shape, dtype=bool)
    where[:, t] = group.lengths > t
    logits = sampled[1].logits(group, where).astype(np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    mean = probs.mean(axis=0)
    found = CandidateModel(recorded, None).at(2, [t])[0]
    assert len(found["rows"]) == where.sum()
    for candidate in found["mean"]:
        assert candidate["mean"] == pytest.approx(mean[candidate["token"]], abs=1e-6)
    assert found["mean"][0]["mean"] == pytest.approx(mean.max(), abs=1e-6)


def test_other_weights_are_named_plainly_and_the_nearest_are_taken(
    sampled: tuple[Path, Engine], tmp_path: Path
) -> None:
    folder = shutil.copytree(sampled[0], tmp_path / "run")
    rollouts = folder / "rollouts"
    shutil.copy(rollouts / "step-000002.safetensors", rollouts / "step-000009.safetensors")
    recorded = read_step(find_recordings(folder), 9)
    assert [(s.kind, s.after) for s in saved_states(recorded)] == [("checkpoint", 1), ("before", 0)]
    assert "not by the weights that sampled" in saved_states(recorded)[0].sentence
    (folder / "checkpoints" / "step-000001" / "weights.safetensors").write_bytes(b"torn")
    assert CandidateModel(recorded, None).loaded[1].kind == "before"
    _, given = CandidateModel(recorded, None, recorded.recipe.model).loaded
    assert given.kind == "given" and not given.exact and recorded.recipe.model in given.sentence
