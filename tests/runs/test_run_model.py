"""A run as a model: a benchmark that it was trained on is said to be."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from written import sums, write

from ictcli.engine.model_files import ASKED
from ictcli.engine.models import locate
from ictcli.evaluation import suite
from ictcli.evaluation.settings import ModelSettings, read_settings
from ictcli.evaluation.specs import Trained
from ictcli.files import gate, write_json
from ictcli.recipe import load_recipe
from ictcli.runs import Run
from ictcli.runs.model import find_models
from ictcli.runs.trained import base_notes, is_trained, trained_on
from ictcli.runs.trust import read_run
from ictcli.tasks import find_benchmark
from ictcli.tasks.prepare import described, heldout, task_of
from ictcli.tasks.split import is_heldout, key_of


def begun(folder: Path, task: str, *settings: str) -> Path:
    recipe = load_recipe("chain", [f"task={task}", "eval.problems=4", *settings])
    made = task_of(recipe)
    with Run.create(folder, recipe) as run:
        data = described(made, heldout(recipe, made))
        write_json(run.folder / "environment.json", {"format": 1, "data": data})
    return folder


def test_problems_that_a_run_trains_on_are_counted(tmp_path: Path) -> None:
    file = write(tmp_path, sums(range(80)))
    other = write(tmp_path, sums(range(60, 100)), name="other")
    trained, shared = (
        sum(not is_heldout(row["prompt"]) for row in sums(numbers))
        for numbers in (range(80), range(60, 80))
    )
    run = begun(tmp_path / "run", file)
    asked: Any = {"known": False, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    asked |= {"prompt": None, "pattern": None, "name": "run"}
    model: Any = SimpleNamespace(run=run, trained_on=lambda: trained_on(read_run(run)), **asked)
    untrained: Any = SimpleNamespace(run=None, trained_on=Trained, **asked)

    def told(name: str, who: Any = model) -> list[str]:
        bench = find_benchmark(name)
        problems = bench.problems(None)
        spec: Any = SimpleNamespace(name=bench.name, benchmark=bench, problems=problems)
        seen = suite.trained_among([who], [spec])
        return list(suite.notes([who], [spec], read_settings([]), seen))

    assert 60 < trained < 80 and 0 < shared < 40
    assert told(file)[0].startswith(f"run was trained on {trained} of these 80 problems of {file}:")
    assert told(other)[0].startswith(f"run was trained on {shared} of these 40 problems")
    assert told("chain") == ["run was trained on none of these 512 problems of chain."]
    assert told(file, untrained) == []
    write(tmp_path, sums(range(81)))  # what the run was trained on cannot be known any more
    assert trained_on(read_run(run)) == Trained()
    Path(file).unlink()
    assert trained_on(read_run(run)) == Trained()


def test_supervised_steps_and_the_runs_that_made_the_base_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (
        write(tmp_path, sums(range(n, n + 20)), name=f"{n}") for n in (0, 20, 40)
    )
    base = begun(tmp_path / "base", first)
    (base / "model").mkdir()
    shown = (f"sft.data={second}", "sft.steps=1", "sft.columns.response=gold")
    run = begun(tmp_path / "run", third, f"model={base / 'model'}", *shown)
    keys = {name: {key_of(row["prompt"]) for row in sums(range(n, n + 20))}
            for name, n in (("base", 0), ("sft", 20), ("run", 40))}  # fmt: skip
    found = trained_on(read_run(run))
    assert found.whole and keys["sft"] <= found.keys
    assert all(found.keys & keys[name] for name in keys)
    shutil.copytree(locate("builtin:chain").path, run / "model")
    assert find_models([str(run / "model")], ModelSettings())[0].trained_on() == found
    alone = trained_on(read_run(begun(tmp_path / "alone", third, "steps=0", *shown)))
    assert alone.whole and alone.keys == keys["sft"]
    problems = find_benchmark(first).problems(None)
    told = base_notes(str(base), problems)[0]
    assert f"of the 20 held-out problems, by {base} or before" in told
    assert base_notes(str(run), find_benchmark("chain").problems(9)) == []
    monkeypatch.chdir(run)
    assert base_notes("builtin:chain", problems) == []  # a name, and no folder of the run here
    Path(first).unlink()
    found = trained_on(read_run(run))
    assert not found.whole and keys["sft"] <= found.keys


def test_what_the_base_was_trained_on_is_unknown_where_it_cannot_be_told(tmp_path: Path) -> None:
    """And code that its run names does not run."""
    first, second = (write(tmp_path, sums(range(n, n + 20)), name=f"{n}") for n in (0, 20))
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    coded = begun(tmp_path / "coded", first)
    for name in ("coded/model", "gone", "export", "own/model"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "export" / ASKED).write_text("{}")
    shutil.copy(coded / "recipe.toml", tmp_path / "own" / "recipe.toml")  # a user's, and no run's
    table = {**read_run(coded).data, "plugins": [str(plugin)]}
    (coded / "recipe.toml").write_text(tomli_w.dumps(table))
    bases = {"coded/model": False, "gone": False, "export": False, "own/model": True}
    for number, (base, whole) in enumerate(bases.items()):
        run = begun(tmp_path / f"run{number}", second, f"model={tmp_path / base}")
        if base == "gone":
            (tmp_path / base).rmdir()
        assert trained_on(read_run(run)).whole == whole, base
        assert is_trained(str(tmp_path / base)) != whole
    gate.trust_all()
    assert base_notes(str(coded), find_benchmark(first).problems(None)) == []
    assert not (tmp_path / "ran").exists()
