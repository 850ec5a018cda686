"""A run as a model: a benchmark that it was trained on is said to be."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from written import sums, write

from ictcli.engine.model_files import ASKED
from ictcli.evaluation import suite
from ictcli.evaluation.settings import read_settings
from ictcli.evaluation.specs import Trained
from ictcli.files import write_json
from ictcli.recipe import load_recipe
from ictcli.runs import Run
from ictcli.runs.trained import base_notes, trained_on
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
    assert told(file)[0].startswith(f"run was trained on {trained} of the 80 problems of {file}:")
    assert told(other)[0].startswith(f"run was trained on {shared} of the 40 problems")
    assert told("chain") == ["run was trained on none of the 512 problems of chain."]
    assert told(file, untrained) == []
    write(tmp_path, sums(range(81)))  # what the run was trained on cannot be known any more
    assert trained_on(read_run(run)) == Trained()
    Path(file).unlink()
    assert trained_on(read_run(run)) == Trained()


def test_supervised_steps_count_and_a_base_that_is_a_run_leaves_the_rest_unknown(
    tmp_path: Path,
) -> None:
    shown, file = (write(tmp_path, sums(range(n, n + 20)), name=f"{n}") for n in (0, 20))
    taught = (f"sft.data={shown}", "sft.steps=1", "sft.columns.response=gold")
    alone = trained_on(read_run(begun(tmp_path / "alone", file, "steps=0", *taught)))
    assert alone == Trained({key_of(row["prompt"]) for row in sums(range(20))}, whole=True)
    both = trained_on(read_run(begun(tmp_path / "both", file, *taught)))
    told = base_notes(str(tmp_path / "both"), find_benchmark(shown).problems(None))
    assert "both was trained on 20 of the 20 held-out problems" in told[0]
    assert base_notes(str(tmp_path / "both"), find_benchmark("chain").problems(9)) == []
    assert both.whole and alone.keys < both.keys
    for name in ("own/model", "gone", "export", "both/model"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "export" / ASKED).write_text("{}")
    shutil.copy(tmp_path / "both" / "recipe.toml", tmp_path / "own")  # a user's, and no run's
    bases = {"both/model": False, "gone": False, "export": False, "own/model": True}
    for number, (base, whole) in enumerate(bases.items()):
        run = begun(tmp_path / f"run{number}", file, f"model={tmp_path / base}")
        if base == "gone":
            (tmp_path / base).rmdir()
        assert trained_on(read_run(run)).whole == whole, base
    Path(shown).unlink()
    found = trained_on(read_run(tmp_path / "both"))
    assert found == Trained()
