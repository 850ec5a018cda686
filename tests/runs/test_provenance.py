"""A run goes on with what it began with, wherever that lies now, or says what is another."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from observing import Notes
from refusing import refused

from ictcli.errors import UserError
from ictcli.recipe import load_recipe, read_recipe
from ictcli.runs import Run
from ictcli.runs.fingerprint import check_engine, check_same, of_recipe
from ictcli.runs.records import EngineRecord, Environment, Summary
from ictcli.train.finish import finished as finished_run
from ictcli.train.launch import launch
from tests.cases import first

SMALL = (
    "method=grpo",
    "steps=2",
    "prompts=2",
    "group=4",
    "max_tokens=16",
    "eval.problems=4",
    "engine.threads=1",
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


def test_a_recipe_changed_before_the_first_checkpoint_is_refused(made: Path) -> None:
    shutil.rmtree(made / "checkpoints")
    file = made / "recipe.toml"
    text = file.read_text()
    for old, new in (("temperature = 1.0", "temperature = 0.5"), ('"own"', '"int8"')):
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(UserError, match=r"recipe\.toml was changed since the run began"):
            resumed(made)
    file.write_text(text.replace("micro_tokens = ", "micro_tokens = 1"))
    whole = (made / "metrics.jsonl").read_bytes()
    assert not [each for each in resumed(made)[1] if "cut at max_tokens" not in each]
    assert (made / "metrics.jsonl").read_bytes() == whole


def test_it_goes_on_with_its_own_model_wherever_that_lies_now(
    made: Path, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    shutil.rmtree(made / "checkpoints")
    moved = shutil.copytree(tiny_model, tmp_path / "moved")
    text, whole = (made / "recipe.toml").read_text(), (made / "metrics.jsonl").read_bytes()
    (made / "recipe.toml").write_text(text.replace(str(tiny_model), str(untied_model)))
    with pytest.raises(UserError, match=f"not the one that the run began with, {tiny_model}"):
        resumed(made)
    (made / "recipe.toml").write_text(text.replace(str(tiny_model), str(moved)))
    resumed(made)
    assert (made / "metrics.jsonl").read_bytes() == whole


def test_another_precision_is_warned_of(made: Path) -> None:
    file = made / "recipe.toml"
    file.write_text(file.read_text().replace('dtype = "auto"', 'dtype = "bfloat16"'))
    (note,) = resumed(made)[1]
    assert "began with torch in float32" in note
    assert "goes on with torch in bfloat16" in note


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
        assert "kernels avx2" in resumed(made)[1][0]


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
    """What `ictcli resume` shows of a finished run."""
    run, recipe = Run.open(folder)
    with run:
        found = finished_run(run, recipe, print)
    assert found is not None
    return found


def test_the_model_of_a_run_that_was_moved_is_where_it_lies_now(made: Path) -> None:
    assert again(made).model == str(made / "model")
    weights = (made / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(made / "model")
    assert again(made).model == str(made / "model")
    assert (made / "model" / "model.safetensors").read_bytes() == weights
    shutil.rmtree(made / "model")
    shutil.rmtree(made / "checkpoints")
    with pytest.raises(UserError, match="There is no checkpoint"):
        again(made)


class Other:
    def describe(self) -> dict[str, Any]:
        return {"engine": "mlx", "dtype": "float32", "bits": []}


def test_adapters_go_on_with_the_engine_they_began_with(tmp_path: Path) -> None:
    torch, other = {"engine": "torch", "dtype": "float32", "bits": []}, Other()
    began = Environment(engine=EngineRecord.model_validate(torch, strict=False))
    engine: Any = other
    with pytest.raises(UserError, match="began with torch") as caught:
        check_engine(tmp_path, began, engine, adapters=True, option="engine.backend=")
    assert (caught.value.hint, caught.value.exit_code) == ("engine.backend=torch", 2)
    assert "with mlx" in check_engine(tmp_path, began, engine, adapters=False, option="")
    same = Environment(engine=EngineRecord.model_validate(other.describe(), strict=False))
    assert check_engine(tmp_path, same, engine, adapters=True, option="") == ""
    assert check_engine(tmp_path, Environment(), engine, adapters=True, option="") == ""


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
        ("recipe", "x", "recipe.toml was changed since the run began"),
        ("model", "x", "is not the one that the run began with, m:"),
        ("train", NOW["heldout"], "problems to train on changed .* not listed, and now 2 of"),
        ("heldout", {"problems": 3, "sha256": "c"}, "problems to evaluate on changed .* now 3"),
    ):
        with pytest.raises(UserError, match=words):
            check_same(tmp_path, began, {**NOW, part: other})


RECIPE = """model = "m"
task = "{a}/d.{kind}"
data = "{a}/x.jsonl"
lr = {lr}
eval = {{bench = "{a}/b.{kind}", data = "{a}/y.csv", n = 4, verifier = "{a}/e.py:grade"}}
reward = {{verifier = "{a}/v.py:grade"}}
engine = {{rows = {rows}, context = {context}}}
"""


def test_a_recipes_files_may_be_moved_and_what_counts_may_not(tmp_path: Path) -> None:
    def hashed(
        place: str,
        verifier: str,
        lr: float = 0.1,
        *,
        rows: int = 4,
        context: int = 0,
        of_eval: str = "one",
    ) -> str:
        folder = tmp_path / place
        folder.mkdir(exist_ok=True)
        (folder / "v.py").write_text(verifier)
        (folder / "e.py").write_text(of_eval)
        values = {"a": folder, "kind": "csv", "lr": lr, "rows": rows, "context": context}
        (folder / "recipe.toml").write_text(RECIPE.format(**values))
        return of_recipe(read_recipe(folder / "recipe.toml").data)

    own = hashed("a", "one")
    assert hashed("b", "one") == own
    assert hashed("b", "two") != own
    assert hashed("b", "one", of_eval="two") != own
    assert hashed("b", "one", 0.2) != own
    assert hashed("b", "one", rows=8) == own
    assert hashed("b", "one", context=9) != own
