"""A run as a model: a benchmark that it was trained on is said to be."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ictcli.evaluation import suite
from ictcli.evaluation.settings import read_settings
from ictcli.files import write_json
from ictcli.recipe import load_recipe
from ictcli.runs import Run
from ictcli.runs.model import trained_on
from ictcli.runs.trust import read_run
from ictcli.tasks import find_benchmark
from ictcli.tasks.prepare import described, heldout, task_of
from ictcli.tasks.split import is_heldout


def write(path: Path, numbers: range) -> list[str]:
    prompts = [f"What is {number} plus one?" for number in numbers]
    rows = [
        {"prompt": prompt, "gold": str(n + 1)} for prompt, n in zip(prompts, numbers, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return prompts


def begun(tmp_path: Path, task: str) -> Path:
    recipe = load_recipe("chain", [f"task={task}", "eval.problems=4"])
    made = task_of(recipe)
    with Run.create(tmp_path / "run", recipe) as run:
        data = described(made, heldout(recipe, made))
        write_json(run.folder / "environment.json", {"format": 1, "data": data})
    return tmp_path / "run"


def test_problems_that_a_run_trains_on_are_counted(tmp_path: Path) -> None:
    file, other = tmp_path / "d.jsonl", tmp_path / "other.jsonl"
    trained = [prompt for prompt in write(file, range(80)) if not is_heldout(prompt)]
    shared = [prompt for prompt in write(other, range(60, 100)) if prompt in trained]
    run = begun(tmp_path, str(file))
    asked = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "prompt": None, "pattern": None}
    model: Any = SimpleNamespace(
        name="run", run=run, trained_on=lambda: trained_on(read_run(run)), **asked
    )
    untrained: Any = SimpleNamespace(name="x", run=None, trained_on=tuple, **asked)

    def told(name: Path | str, who: Any = model) -> list[str]:
        bench = find_benchmark(str(name))
        problems = bench.problems(None)
        spec: Any = SimpleNamespace(name=bench.name, benchmark=bench, problems=problems)
        seen = suite.trained_among([who], [spec])
        return list(suite.notes([who], [spec], read_settings([]), seen))

    assert 60 < len(trained) < 80 and 0 < len(shared) < 40
    assert told(file)[0].startswith(f"{len(trained)} of 80 problems of {file} were trained on by")
    assert told(other)[0].startswith(f"{len(shared)} of 40 problems")
    assert told("chain") == [f"no problem of chain was trained on by {run}."]
    assert told(file, untrained) == []
    write(file, range(81))  # what the run was trained on cannot be known any more
    assert trained_on(read_run(run)) == ()
    file.unlink()
    assert trained_on(read_run(run)) == ()


def test_a_task_that_ships_with_its_own_split_is_not_looked_at(tmp_path: Path) -> None:
    assert trained_on(read_run(begun(tmp_path, "chain"))) == ()
