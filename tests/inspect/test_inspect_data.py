"""The data of `ictcli inspect`: what each method keeps, shades, tokens as text, and candidates."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import HOSTILE, WORDS, batch_of, recipe_of, record

from ictcli.engine import Engine, build_engine
from ictcli.errors import UserError
from ictcli.inspect.candidates import CandidateModel, saved_states
from ictcli.inspect.recorded import find_recordings, read_step
from ictcli.inspect.selections import select_all
from ictcli.inspect.session import Session, parse_places
from ictcli.inspect.view import level
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.tasks.prepare import task_of
from ictcli.text import sign, visible
from ictcli.train.step import optimise, sample_batch, select


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded") / "run")


def data_of(source: Path, *methods: str, by: str | None = None, prompt: int = 1) -> dict[str, Any]:
    session = Session(source, methods, by)
    view, number = session.open(None, prompt)
    return session.data(view, number, [])


def test_controls_are_asked_for_the_run_s_own_share(tmp_path: Path) -> None:
    record(tmp_path / "run", "method.keep=0.5")
    recorded = read_step(find_recordings(tmp_path / "run"), 10)
    found, _ = select_all(recorded, ["ict", "random", "entropy20"])
    shares = {one.name: one.kept.sum() / recorded.batch.rollouts.valid.sum() for one in found}
    assert shares["random"] == pytest.approx(0.5, abs=0.02)
    assert shares["entropy20"] == pytest.approx(0.2, abs=0.02)


def masks(data: dict[str, Any], method: str) -> list[list[bool]]:
    return [rollout["kept"][method] for rollout in data["rollouts"]]


def test_ict_keeps_the_tokens_of_highest_uniqueness(run: Path) -> None:
    data = data_of(run, "ict")
    for rollout in data["rollouts"]:
        u = rollout["stats"]["uniqueness"]
        count = math.ceil(0.1 * len(u))
        order = sorted(range(len(u)), key=lambda t: (-u[t], t))
        best = {t for t in order[:count] if u[t] > 0}
        assert [t in best for t in range(len(u))] == rollout["kept"]["ict"]


def test_entropy20_keeps_the_fifth_of_highest_entropy_of_the_whole_batch(run: Path) -> None:
    kept = np.concatenate(
        [np.concatenate(masks(data_of(run, prompt=k), "entropy20")) for k in (1, 2, 3)]
    )
    H1 = np.concatenate(
        [
            np.array(r["stats"]["entropy"])
            for k in (1, 2, 3)
            for r in data_of(run, prompt=k)["rollouts"]
        ]
    )
    assert kept.sum() == math.ceil(0.2 * len(H1))
    assert H1[kept].min() >= H1[~kept].max()


@pytest.mark.parametrize("name", ["random", "stapo", "clip_cov", "frequent", "dr_grpo"])
def test_a_method_keeps_what_training_by_it_would(run: Path, name: str) -> None:
    recipe = recipe_of(f"method={name}")
    batch = batch_of(20)
    expected = select(recipe, batch, 20).kept
    found = masks(data_of(run, name, prompt=2), name)
    for mask, row in zip(found, expected[4:8], strict=True):
        assert mask == row[: len(mask)].tolist() and not row[len(mask) :].any()


def test_what_was_trained_is_the_runs_own_method(run: Path) -> None:
    data = data_of(run)
    assert [(m["name"], m["trained"]) for m in data["methods"]][:2] == [
        ("ict", True),
        ("entropy20", False),
    ]
    assert data["methods"][0]["overlap_with_trained"] == 1.0 and data["shown"] == "ict"


def test_in_a_dense_warm_up_the_method_stands_beside_what_was_trained(tmp_path: Path) -> None:
    data = data_of(record(tmp_path / "run", "warmup=25"))
    assert [m["name"] for m in data["methods"]][:2] == ["trained", "ict"]
    assert all(all(mask) for mask in masks(data, "trained"))
    assert "warm-up of 25" in data["methods"][0]["about"] and data["shown"] == "ict"
    assert not any(all(mask) for mask in masks(data, "ict"))


def test_a_method_without_its_statistics_is_told_and_how_to_record_them(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", "method=entropy20", uniqueness=False)
    data = data_of(folder, "ict", "kl", "random")
    told = {m["name"]: m for m in data["missing"]}
    assert "record.uniqueness=true" in told["ict"]["sentence"]
    assert told["kl"]["statistics"] == ["kl_from_mean", "kl_to_mean"]
    assert data["by"] == "entropy" and "random" in data["rollouts"][0]["kept"]
    with pytest.raises(UserError, match="uniqueness") as refused:
        data_of(folder, by="uniqueness")
    assert "record.uniqueness=true" in refused.value.hint


def test_a_file_without_its_run_is_read_with_the_default_options(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "rollouts" / "step-000010.safetensors", tmp_path / "some.safetensors")
    data = data_of(tmp_path / "some.safetensors")
    assert data["run"] is None and data["step"] == 10 and data["steps"] == [10]
    assert "default options" in data["notes"][0]
    assert data["rollouts"][0]["pieces"][0] == f"<{data['rollouts'][0]['tokens'][0]}>"
    assert masks(data, "ict") == masks(data_of_step(run, 10), "ict")


def data_of_step(source: Path, step: int) -> dict[str, Any]:
    session = Session(source)
    view, number = session.open(step, 1)
    return session.data(view, number, [])


def test_a_file_of_a_run_has_the_runs_recipe_and_neighbours(run: Path) -> None:
    data = data_of(run / "rollouts" / "step-000010.safetensors")
    assert data["run"] == str(run) and data["step"] == 10 and data["steps"] == [10, 20]


def test_a_run_whose_plugin_is_gone_can_still_be_read(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(
        recipe.replace("plugins = []", 'plugins = ["/gone.py"]').replace('"ict"', '"mine"')
    )
    data = data_of(folder)
    assert "recipe.toml is not what" in data["notes"][0]
    assert "gone.py" in data["notes"][1] and data["methods"][0]["name"] == "trained"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, 1))
def test_a_higher_value_never_has_a_lighter_shade(one: float, other: float, top: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= level(low, top) <= level(high, top) <= 5
    assert level(0.0, top) == 0 and level(top, top) == 5


def test_pieces_are_the_text_token_by_token(run: Path) -> None:
    for rollout in data_of(run)["rollouts"]:
        assert rollout["pieces"] == [WORDS[i] for i in rollout["tokens"]]
        assert "".join(rollout["pieces"]) == rollout["text"]


@given(st.text(max_size=20))
def test_what_is_shown_moves_no_cursor_and_is_never_empty(text: str) -> None:
    assert visible(text).isprintable() and len(visible(text)) == len(text)
    assert sign(text).strip()


def test_places_outside_the_group_are_refused(run: Path) -> None:
    session = Session(run)
    view, number = session.open(20, 1)
    lengths = view.recorded.batch.rollouts.lengths
    assert parse_places(view, number, ["2:3", "2:3"]) == [(1, 2)]
    assert len(parse_places(view, number, ["all"])) == lengths[:4].sum()
    for wrong in ("0:1", "5:1", "1:0", f"1:{lengths[0] + 1}", "1", "x"):
        with pytest.raises(UserError):
            parse_places(view, number, [wrong])


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
                assert optimise(recipe, engine, batch, selection, step).finite
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
    assert model.state and model.state.exact and model.state.kind == kind
    assert "weights that sampled" in model.state.sentence
    for position in found:
        t = position["position"] - 1
        assert position["recorded_gap"] < 1e-4
        live = {str(row + 1) for row in range(4) if rollouts.lengths[4 + row] > t}
        assert set(position["rows"]) == live
        for row, told in position["rows"].items():
            u = rollouts.stats["uniqueness"][3 + int(row), t]
            assert told["uniqueness"] == pytest.approx(u, abs=1e-4)
            p = [candidate["p"] for candidate in told["candidates"]]
            assert p == sorted(p, reverse=True) and sum(p) <= 1 + 1e-9


def test_the_mean_is_that_of_the_rollouts_that_reach_the_position(
    sampled: tuple[Path, Engine],
) -> None:
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
    folder = tmp_path / "run"
    shutil.copytree(sampled[0], folder)
    shutil.copy(
        folder / "rollouts" / "step-000002.safetensors",
        folder / "rollouts" / "step-000009.safetensors",
    )
    recorded = read_step(find_recordings(folder), 9)
    assert [(s.kind, s.after) for s in saved_states(recorded)] == [("checkpoint", 1), ("before", 0)]
    assert "not by the weights that sampled" in saved_states(recorded)[0].sentence
    (folder / "checkpoints" / "step-000001" / "weights.safetensors").write_bytes(b"torn")
    assert CandidateModel(recorded, None).load().kind == "before"
    given = CandidateModel(recorded, None, recorded.recipe.model).load()
    assert given.kind == "given" and not given.exact and recorded.recipe.model in given.sentence


def test_without_any_model_candidates_are_refused(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "rollouts" / "step-000010.safetensors", tmp_path / "some.safetensors")
    recorded = read_step(find_recordings(tmp_path / "some.safetensors"), 10)
    with pytest.raises(UserError, match="No model") as refused:
        CandidateModel(recorded, None).load()
    assert "--model" in refused.value.hint
    assert HOSTILE in recorded.batch.problems[0].prompt


def test_the_gradient_of_a_step_is_shared_out_under_each_method(tmp_path: Path) -> None:
    view, _ = Session(record(tmp_path / "run"), ["ict", "grpo", "wapo"]).open(None, None)
    assert set(view.gradients) == {"ict", "grpo", "wapo"}
    for shares in view.gradients.values():
        assert shares and set(shares) == {"right forks", "wrong forks", "sure", "rest"}
        assert sum(map(sum, shares.values())) == pytest.approx(1)
    assert all(down == 0 for _, down in (view.gradients["wapo"] or {}).values())  # A > 0 alone
