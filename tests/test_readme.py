"""The README says what is: its examples run, its commands parse, its map and keys are complete."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ictcli.cli import COMMANDS, cli
from ictcli.recipe import recipe_keys

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", README, re.S))
COMMAND_LINES = [
    part.strip()
    for block in re.findall(r"```console\n(.*?)```", README, re.S)
    for line in block.splitlines()
    for part in line.split("&&")
]


def run(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    command = [sys.executable, "-m", "ictcli", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


SHORT = ("steps=2", "eval.problems=8", "eval.n=4", "prompts=4", "warmup=0")


def test_example_of_a_method_trains(tmp_path: Path) -> None:
    (tmp_path / "surprise.py").write_text(EXAMPLES["surprise.py"])
    plugin = 'plugins=["surprise.py"]'
    options = ("method=surprise", "method.below=0.3", "--run", "r")
    run(tmp_path, "train", "quickstart", plugin, *options, *SHORT)
    assert (tmp_path / "r" / "summary.json").exists()


def test_example_of_a_verifier_judges(tmp_path: Path) -> None:
    (tmp_path / "brief.py").write_text(EXAMPLES["brief.py"])
    run(tmp_path, "train", "quickstart", "reward=brief.py:brief", "--run", "r", *SHORT)
    samples = (tmp_path / "r" / "eval" / "after.jsonl").read_text()
    assert '"status": "wrong"' in samples


def test_example_of_grading_prints_what_it_should(tmp_path: Path) -> None:
    """A script without a main guard: its workers must not run it again."""
    (tmp_path / "graded.py").write_text(EXAMPLES["graded.py"])
    command = [sys.executable, "graded.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    lines = ["correct", "['correct', 'unparsed']", "B", "the number 1/2"]
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")


def test_example_of_a_benchmark_evaluates(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(EXAMPLES["sums.py"])
    options = ("--bench", "sums", "--n", "4", "--k", "1,4", "--json")
    done = run(tmp_path, "eval", "builtin:chain", "plugins=sums.py", *options)
    assert '"problems": 10' in done.stdout


def test_example_of_an_engine_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "loud_engine.py").write_text(EXAMPLES["loud_engine.py"])
    about = tmp_path / "loud_engine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-engine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[ictcli.engines]\nloud = loud_engine:build\n")
    options = ("engine.backend=loud", "--run", "r", *SHORT)
    done = run(tmp_path, "train", "quickstart", *options, path=tmp_path)
    assert re.search(r"sampled \d+ tokens", done.stderr)


@pytest.mark.parametrize("line", [c for c in COMMAND_LINES if c.startswith("ictcli ")])
def test_commands_of_the_readme_parse(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    assert name in COMMANDS
    context = cli.make_context("ictcli", ["doctor"])
    command = cli.get_command(context, name)
    assert command is not None
    command.make_context(name, arguments, parent=context)


def test_every_recipe_key_is_in_the_table() -> None:
    table = README.split("## The recipe")[1].split("## A method")[0]
    for key in recipe_keys():
        if not key.startswith("method."):
            name = key if "." not in key else "." + key.split(".")[1]
            assert f"`{key}`" in table or f"`{name}`" in table, key


def test_the_map_has_a_row_for_every_room() -> None:
    table = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    for top in ("ictcli", "backends"):
        for room in (path.parent for path in (ROOT / top).glob("*/__init__.py")):
            assert f"`{room.relative_to(ROOT)}/`" in table, room
