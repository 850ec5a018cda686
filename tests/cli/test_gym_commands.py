"""A generator of reasoning-gym as a task of the commands, by the model of the documentation."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from processes import Processes

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="reasoning-gym is not installed"
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "gym"
FEW = ("task.size=64", "prompts=2", "group=2", "eval.problems=4", "eval.n=1", "eval.k=[1]")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of docs/gym.md, taught for one step."""
    spec = importlib.util.spec_from_file_location("base_model", EXAMPLE / "base_model.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("gym") / "base"
    module.STEPS, module.DRAWN = 1, 100
    module.main(folder)
    return folder


@pytest.mark.thorough
def test_a_run_trains_and_goes_on_with_another_version_of_the_library(
    ictcli: Processes, base: Path, tmp_path: Path
) -> None:
    more = ("eval.temperatures=[]", f"model={base}", "steps=1", "--run", "run")
    ended = ictcli.done("train", str(EXAMPLE / "gym.toml"), *FEW, *more)
    assert "loses characters" not in ended.err
    file = tmp_path / "run" / "environment.json"
    environment = json.loads(file.read_text())
    data = environment["data"]
    assert data["seeds"] == {"train": 0, "heldout": 1 << 31}
    assert data["version"] == environment["libraries"]["reasoning-gym"]
    file.write_text(json.dumps({**environment, "data": {**data, "version": "0.1"}}))
    ended = ictcli.done("resume", "run", "steps=2")
    assert f"began with reasoning-gym 0.1, and goes on with {data['version']}" in ended.err


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
