"""The examples on the pages of docs/ run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Processes

PAGES = [
    path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "docs").rglob("*.md")
]
EXAMPLES = {
    name: text
    for page in PAGES
    for name, text in re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", page, re.S)
}
SHORT = ("steps=2", "prompts=2", "group=4", "warmup=0", "max_tokens=32", "eval.problems=4")
SHORT += ("eval.n=1", "eval.k=[1]", "--run", "r")


def write(folder: Path, name: str) -> None:
    (folder / name).write_text(EXAMPLES[name], encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "method", "setting"),
    [
        ("surprise", "surprise", "method.below=0.3"),
        ("margin", "margin", "record.rollouts_every=1"),
        ("anchor", "anchored", "update.epochs=2"),
    ],
)
def test_a_method_a_statistic_and_a_term_train(
    ictcli: Processes, tmp_path: Path, name: str, method: str, setting: str
) -> None:
    write(tmp_path, f"{name}.py")
    options = (f'plugins=["{name}.py"]', f"method={method}", setting)
    ictcli.done("train", "chain", *options, *SHORT)
    metrics = [json.loads(line) for line in (tmp_path / "r" / "metrics.jsonl").open()]
    assert all(line["finite"] for line in metrics)
    assert all(("highest" in line) == (name == "margin") for line in metrics)


def test_a_verifier_and_functions_in_trl_s_form(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, "brief.py")
    write(tmp_path, "rewards.py")
    functions = 'reward.functions=["rewards.py:right", "rewards.py:brevity"]'
    options = ("reward=brief.py:brief", functions, "reward.weights=[1, 0.2]")
    ictcli.done("train", "chain", *options, *SHORT)
    first = json.loads((tmp_path / "r" / "metrics.jsonl").open().readline())
    assert first["reward/right"] >= first["reward/brief"] and first["reward/brevity"] > 0
    assert '"status": "wrong"' in (tmp_path / "r" / "eval" / "after.jsonl").read_text()


def test_grading_prints_what_the_page_says(tmp_path: Path) -> None:
    """A script without a main guard: its workers must not run it again."""
    write(tmp_path, "graded.py")
    command = [sys.executable, "graded.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (said,) = re.findall(r"It prints\n\n```text\n(.*?)```", "\n".join(PAGES), re.S)
    assert (ended.stdout, ended.stderr) == (said, "")


def test_a_benchmark_evaluates(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, "sums.py")
    options = ("plugins=sums.py", "--bench", "sums", "--n", "4", "--k", "1,4")
    assert ictcli.json("eval", "builtin:chain", *options)[0]["problems"] == 10
