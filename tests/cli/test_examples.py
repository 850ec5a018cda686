"""The examples on the pages of docs/ run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Ended, Processes, fresh

PAGES = [
    path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "docs").rglob("*.md")
]
EXAMPLES = {
    name: text
    for page in PAGES
    for name, text in re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", page, re.S)
}
SHORT = ("steps=2", "prompts=4", "group=4", "warmup=0", "eval.problems=8", "eval.n=1", "eval.k=[1]")
SHORT += ("eval.temperatures=[]", "--run", "r")


def write(folder: Path, name: str) -> None:
    (folder / name).write_text(EXAMPLES[name], encoding="utf-8")


def done(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


def test_a_method_trains(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, "surprise.py")
    options = ('plugins=["surprise.py"]', "method=surprise", "method.below=0.3")
    ictcli.done("train", "chain", *options, *SHORT)
    assert (tmp_path / "r" / "summary.json").exists()


@pytest.mark.parametrize(
    ("name", "method", "setting"),
    [("margin", "margin", "record.rollouts_every=1"), ("anchor", "anchored", "update.epochs=2")],
)
def test_a_statistic_and_a_term_train(
    ictcli: Processes, tmp_path: Path, name: str, method: str, setting: str
) -> None:
    write(tmp_path, f"{name}.py")
    options = (f'plugins=["{name}.py"]', f"method={method}", setting)
    ictcli.done("train", "chain", *options, *SHORT)
    lines = (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert all(line["finite"] for line in metrics)
    assert all(("highest" in line) == (name == "margin") for line in metrics)


def test_a_verifier_judges_and_functions_in_trl_s_form_add_rewards(
    ictcli: Processes, tmp_path: Path
) -> None:
    write(tmp_path, "brief.py")
    write(tmp_path, "rewards.py")
    functions = 'reward.functions=["rewards.py:right", "rewards.py:brevity"]'
    options = ("reward=brief.py:brief", functions, "reward.weights=[1, 0.2]")
    ictcli.done("train", "chain", *options, *SHORT)
    first = json.loads((tmp_path / "r" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["reward/right"] >= first["reward/brief"] and first["reward/brevity"] > 0
    samples = (tmp_path / "r" / "eval" / "after.jsonl").read_text()
    assert '"status": "wrong"' in samples


def test_grading_prints_what_the_page_says(tmp_path: Path) -> None:
    """A script without a main guard: its workers must not run it again."""
    write(tmp_path, "graded.py")
    command = [sys.executable, "graded.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (said,) = re.findall(r"It prints\n\n```text\n(.*?)```", "\n".join(PAGES), re.S)
    assert (ended.stdout, ended.stderr) == (said, "")


def test_a_benchmark_evaluates(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, "sums.py")
    options = ("plugins=sums.py", "--bench", "sums", "--n", "4", "--k", "1,4", "--json")
    ended = ictcli.done("eval", "builtin:chain", *options)
    assert '"problems": 10' in ended.out


@pytest.mark.thorough
def test_an_engine_is_installed_and_trains(tmp_path: Path) -> None:
    package, place = tmp_path / "loud-engine", tmp_path / "installed"
    package.mkdir()
    write(package, "pyproject.toml")
    write(package, "loud_engine.py")
    here = ("--no-deps", "--no-build-isolation", "--no-index", "-q", "--target", place, package)
    subprocess.run([sys.executable, "-m", "pip", "install", *here], check=True)
    options = ("train", "chain", "engine.backend=loud", *SHORT)
    ended = done(fresh(*options, folder=tmp_path, PYTHONPATH=str(place)))
    assert re.search(r"sampled \d+ tokens", ended.err)
