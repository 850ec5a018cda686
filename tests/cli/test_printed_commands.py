"""Each command that the program prints, run as bash reads it, gives the figures just shown."""

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import Processes

from ictcli.tasks import find_task

PATTERN = r"""(\d)['"]?[#$]"""
RUN = "a run's $HOME"


@dataclass(frozen=True)
class Trained:
    """A run of a user's own data, and what it printed."""

    processes: Processes
    folder: Path
    lines: list[str]

    def printed(self, verb: str) -> str:
        """The command with that verb among the lines."""
        (command,) = (line for line in self.lines if line.startswith(f"ictcli {verb} "))
        return command

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / RUN / "summary.json").read_text())


def printed_in(text: str) -> list[str]:
    return re.findall(r"^(?:next|whole|best): +(ictcli .*)$", text, re.MULTILINE)


def as_in_bash(command: str) -> list[str]:
    """The words after `ictcli` as bash reads them: with variables, quotes and globs."""
    script = f'ictcli() {{ printf "%s\\0" "$@"; }}\n{command}\n'
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    return run.stdout.split("\0")[:-1]


def figures(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("pass@1", "pass@2", "greedy")
    return [{name: result[name] for name in names} for result in results]


@pytest.fixture(scope="module")
def run(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("a folder's $PWD")
    rows = [f"{problem.prompt},{problem.gold}" for problem in find_task("chain").heldout(80)]
    for name, part in (("my sums $1.csv", rows[::2]), ("o'test.csv", rows[1:40:2])):
        (folder / name).write_text("\n".join(["question,answer", *part]) + "\n")
    settings = (
        *("task=my sums $1.csv", "eval.bench=o'test.csv", f"reward.pattern={PATTERN}"),
        *("reward.verifier=text", "prompt.suffix==", "prompt.system=1+1=2", "steps=2", "lr=0.01"),
        *("prompts=4", "group=4", "max_tokens=48", "warmup=0", "record.rollouts_every=2"),
        *("eval.n=2", "eval.k=[1, 2]", "seed=3", "temperature=0.9", "adapter.kind=lora"),
    )
    here = processes.here(folder)
    ended = here.done("train", "chain", *settings, "--run", RUN)
    return Trained(here, folder, printed_in(ended.err))


def test_the_evaluation_that_training_prints_gives_its_figures(run: Trained) -> None:
    summary = run.summary
    shown = figures([summary["before"], summary["after"]])
    assert shown[0] != shown[1] and 0 < shown[0]["pass@1"]["value"] < 1
    assert figures(run.processes.json(*as_in_bash(run.printed("eval")))) == shown
    samples, named = "--n=2 --k=1,2 --bench", "o'test.csv"
    with_bench = (*shlex.split(run.printed("eval"))[1:], *samples.split(), named)
    (evaluated,) = run.folder.glob("evals/*-heldout/settings.json")
    seed = json.loads(evaluated.read_text())["seed"]
    assert figures(run.processes.json(*with_bench, f"seed={seed}")) == shown


def test_all_commands_that_training_prints_run(run: Trained) -> None:
    assert run.processes.json("runs", "show", RUN)["next"] == [
        line for line in run.lines if "--merge" not in line
    ]
    run.processes.done(*as_in_bash(run.printed("inspect")))
    run.processes.done(*as_in_bash(run.printed("generate").replace("PROMPT", "3*4+1=")))
    for command in (line for line in run.lines if line.startswith("ictcli export")):
        ended = run.processes.done(*as_in_bash(command))
        (evaluation,) = [line for line in printed_in(ended.err) if " eval " in line]
        results = figures(run.processes.json(*as_in_bash(evaluation)))
        assert results == figures([run.summary["after"]]) * 2, command


def test_where_hardly_an_answer_can_be_read_a_warning_says_what_to_do(run: Trained) -> None:
    pattern = "it's (\\d+) $"
    ended = run.processes.done(
        *as_in_bash(run.printed("eval")), f"reward.pattern={pattern}", "--limit", "5"
    )
    assert ended.err.count("warning: 100.0 % of the answers to o'test.csv cannot be read") == 2
    graded = [line for line in printed_in(ended.err) if line.startswith("ictcli grade ")]
    assert len(graded) == 2
    for command in graded:
        assert re.search(r"unparsed +10 +100.0 %", run.processes.done(*as_in_bash(command)).out)


def test_a_run_that_exists_is_resumed_by_the_hint(run: Trained) -> None:
    text = run.processes.refused("train", "chain", "--run", RUN)
    (command,) = re.findall(r"ictcli resume .+?(?= continues it)", text)
    assert "is finished: 2 steps" in run.processes.done(*as_in_bash(command)).err
