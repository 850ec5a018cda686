"""A run goes on with what it began with, wherever that lies now, or says what is another."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from observing import Notes
from refusing import refused

from ictcli.recipe import load_recipe, read_recipe
from ictcli.runs import Run
from ictcli.runs.origin import check_engine, check_same, of_recipe
from ictcli.runs.records import EngineRecord, Environment, Summary
from ictcli.train.finish import finished as finished_run
from ictcli.train.launch import launch
from tests.cases import first

SMALL = (
    *("method=grpo", "steps=2", "prompts=2", "group=4", "max_tokens=16"),
    *("eval.problems=4", "engine.threads=1"),
)


def resumed(folder: Path) -> tuple[Summary, list[str]]:
    (folder / "summary.json").unlink(missing_ok=True)
    run, recipe = Run.open(folder)
    notes = Notes()
    with run:
        return launch(run, recipe, notes), notes.warnings


@pytest.fixture(scope="module")
def finished(even: None, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "run"
    overrides = [f"model={tiny_model}", "reward=even", "checkpoint.every=1", "lr=0.01", *SMALL]
    recipe = load_recipe("chain", overrides)
    with Run.create(folder, recipe) as run:
        launch(run, recipe, Notes())
    return folder


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def test_it_goes_on_with_its_own_recipe_and_model_wherever_that_lies_now(
    made: Path, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    """And says what was changed before the first checkpoint."""
    shutil.rmtree(made / "checkpoints")
    moved = str(shutil.copytree(tiny_model, tmp_path / "moved"))
    text, whole = (made / "recipe.toml").read_text(), (made / "metrics.jsonl").read_bytes()
    for old, new, words in (
        ("temperature = 1.0", "temperature = 0.5", "was changed since the run began"),
        (str(tiny_model), str(untied_model), f"that the run began with, {tiny_model}"),
    ):
        assert old in text
        (made / "recipe.toml").write_text(text.replace(old, new, 1))
        with refused(words):
            resumed(made)
    other = text.replace(str(tiny_model), moved).replace("micro_tokens = ", "micro_tokens = 1")
    (made / "recipe.toml").write_text(other)
    assert not [each for each in resumed(made)[1] if "cut at max_tokens" not in each]
    assert (made / "metrics.jsonl").read_bytes() == whole


@pytest.mark.parametrize("recorded", ["plain", None])
def test_a_run_goes_on_with_the_kernels_it_began_with(
    made: Path, monkeypatch: pytest.MonkeyPatch, recorded: str | None
) -> None:
    """An older run recorded none, and began with oneDNN's; others than the recorded are warned
    of."""
    file, used = made / "environment.json", list[str]()
    data = json.loads(file.read_text())
    data["engine"].pop("kernels")
    data["engine"] |= {"kernels": recorded} if recorded else {}
    file.write_text(json.dumps(data))
    monkeypatch.setattr("ictcli_torch.model.exchange", lambda *given: used.append(given[-1]))
    assert resumed(made)[1] == []
    assert used == [recorded or "onednn"]
    if recorded:
        recipe = made / "recipe.toml"
        recipe.write_text(recipe.read_text().replace('kernels = "auto"', 'kernels = "avx2"'))
        assert 'kernels = "plain", and now "avx2"' in resumed(made)[1][0]


@pytest.mark.parametrize("damage", first(['{"n": 4}', None]))
def test_what_it_was_before_is_measured_again_by_the_weights_it_began_with(
    made: Path, damage: str | None
) -> None:
    file, samples = made / "eval" / "before.json", made / "eval" / "before.jsonl"
    whole = samples.read_bytes()
    assert whole != (made / "eval" / "after.jsonl").read_bytes()
    file.unlink() if damage is None else file.write_text(damage)
    notes = resumed(made)[1]
    assert notes == [] or "before.json is damaged" in notes[0]
    assert json.loads(file.read_text())["problems"] == 4
    assert samples.read_bytes() == whole


@pytest.mark.parametrize("name", ["environment.json", "summary.json"])
def test_a_damaged_file_is_named(made: Path, name: str) -> None:
    for damage in ("", "null"):
        (made / name).write_text(damage)
        with refused(f"{name} is damaged", hint=f"rm {made / name}"):
            again(made) if name == "summary.json" else resumed(made)
    (made / name).unlink()
    resumed(made)
    assert again(made).steps == 2


def again(folder: Path) -> Summary:
    run, recipe = Run.open(folder)
    with run:
        found = finished_run(run, recipe, print)
    assert found is not None
    return found


def test_the_model_of_a_run_that_was_moved_is_where_it_lies_now(made: Path) -> None:
    weights = (made / "model" / "model.safetensors").read_bytes()
    for _ in range(2):
        assert again(made).model == str(made / "model")
        assert (made / "model" / "model.safetensors").read_bytes() == weights
        shutil.rmtree(made / "model")
    shutil.rmtree(made / "checkpoints")
    with refused("There is no checkpoint"):
        again(made)


@pytest.mark.parametrize("adapters", [True, False])
def test_another_engine_or_precision_is_warned_of_and_refused_where_adapters_are_its_own(
    tmp_path: Path, adapters: bool
) -> None:
    def check(engine: str, dtype: str, began: Environment | None = None) -> str | None:
        about = {"engine": "torch", "dtype": "float32", "bits": []}
        record = EngineRecord.model_validate(about, strict=False)
        now: Any = SimpleNamespace(describe=lambda: {**about, "engine": engine, "dtype": dtype})
        before = began or Environment(engine=record)
        return check_engine(tmp_path, before, now, adapters=adapters, option="engine.backend=")

    assert check("torch", "float32") == check("mlx", "float32", Environment()) is None
    assert 'began with dtype = "float32", and now "bfloat16"' in str(check("torch", "bfloat16"))
    if not adapters:
        assert 'engine = "torch", and now "mlx"' in str(check("mlx", "float32"))
        return
    with refused("began with torch", hint="engine.backend=torch"):
        check("mlx", "float32")


KNOWN = {
    "recipe_sha256": "a",
    "model": {"name": "m", "sha256": "b"},
    "data": {"train": None, "heldout": {"problems": 2, "sha256": "c"}},
}
NOW: dict[str, Any] = {
    "recipe": "a",
    "model": "b",
    "train": None,
    "heldout": {"problems": 2, "sha256": "c"},
}


def test_a_part_that_both_know_and_that_differs_is_refused_in_a_sentence(tmp_path: Path) -> None:
    began = Environment.model_validate(KNOWN)
    (tmp_path / "environment.json").write_text(json.dumps({"format": 1, **KNOWN}))
    check_same(tmp_path, began, NOW)
    check_same(tmp_path, Environment(), NOW)  # an older version recorded nothing
    check_same(tmp_path, began, {})
    for part, other, words in (
        ("recipe", "x", ["was changed since the run began"]),
        ("model", "x", ["is not the model that the run began with, m:"]),
        ("train", NOW["heldout"], ["problems to train on changed ", "not listed, and now 2 with"]),
        ("heldout", {"problems": 3, "sha256": "c"}, ["problems to evaluate on changed ", "now 3"]),
    ):
        with refused(*words):
            check_same(tmp_path, began, {**NOW, part: other})


RECIPE = """model = "m"
task = "{a}/d.csv"
data = "{a}/x.jsonl"
lr = 0.1
eval = {{bench = "{a}/b.csv", data = "{a}/y.csv", n = 4, verifier = "{a}/e.py:grade"}}
reward = {{functions = ["{a}/v.py:grade"]}}
engine = {{rows = 4, context = 0}}
"""


def test_a_recipes_files_may_be_moved_and_what_counts_may_not(tmp_path: Path) -> None:
    def hashed(place: str, old: str = "", new: str = "", **files: str) -> str:
        folder = tmp_path / place
        folder.mkdir(exist_ok=True)
        for name in ("v", "e"):
            (folder / f"{name}.py").write_text(files.get(name, "one"))
        text = RECIPE.format(a=folder).replace(old, new)
        (folder / "recipe.toml").write_text(text)
        return of_recipe(read_recipe(folder / "recipe.toml").data)

    own = hashed("a")
    assert hashed("b") == hashed("b", "rows = 4", "rows = 8") == own
    others = [hashed("b", v="two"), hashed("b", e="two"), hashed("b", "lr = 0.1", "lr = 0.2")]
    assert own not in [*others, hashed("b", "context = 0", "context = 9")]
