"""What `ictcli train` says of a run that does not learn."""

import json
import re
import shlex
from pathlib import Path

import pytest
from processes import Processes, Small

from ictcli.runs import Run
from ictcli.tasks.prepare import task_of
from ictcli.train.without_signal import grade_command

SMALL = ("prompts=2", "group=2", "max_tokens=8", "warmup=0", "eval.problems=2", "eval.n=4")


@pytest.fixture
def own(tmp_path: Path, tiny_model: Path) -> tuple[str, ...]:
    """Training on data of one's own that the model never gets right."""
    rows = [{"question": f"{n}+{n}=", "answer": "forty-two thousand"} for n in range(60)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "train", "chain", f"model={tiny_model}", "task=own.jsonl", *SMALL


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if "Nothing is learned" in line]


def test_five_steps_without_a_signal_are_told(ictcli: Processes, own: Small) -> None:
    ended = ictcli.run(*own, "steps=7", "--run", "my run")
    assert ended.code == 4, ended.err
    (warning,) = told(ended.err)
    assert ended.err.index("step 5/7") < ended.err.index(warning) < ended.err.index("step 6/7")
    assert re.search(
        r"\d+% are unparsed and \d+% truncated; .* 0% are all right and 100% all", warning
    )
    assert re.search(r"step 1/7 .* unparsed \d+%  truncated \d+%  ", ended.err)


def test_a_run_without_a_signal_stops_if_it_should(
    ictcli: Processes, own: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = (r"reward.pattern=(\S+)", "steps=9", "--run", "my run")
    text = ictcli.refused(*own, *pattern, "alarms.no_signal=stop", code=1)
    assert "Nothing is learned" in text and "step-000005" in text
    monkeypatch.chdir(tmp_path)
    run, recipe = Run.open(Path("my run"))
    command = shlex.split(grade_command(run.folder, recipe, task_of(recipe).domain))
    graded = ictcli.done(*command[1:])
    counts = dict(re.findall(r"^(\w+) +(\d+) ", graded.out, re.MULTILINE))
    samples = (tmp_path / "my run" / "eval" / "before.jsonl").read_text().splitlines()
    assert counts["wrong"] == str(sum('"status": "wrong"' in line for line in samples)) != "0"


def test_the_alarm_can_be_switched_off(ictcli: Processes, own: Small, tmp_path: Path) -> None:
    more = ("steps=5", "alarms.no_signal=off", "record.rollouts_every=4", "--run", "run")
    ended = ictcli.run(*own, *more)
    assert ended.code == 4 and not told(ended.err), ended.err
    assert "Nothing was learned, because the rewards of a group differed in none of 5" in ended.err
    assert "tokens trained" not in ended.err
    again = ictcli.run("resume", "run")
    assert again.code == 4 and "Nothing was learned" in again.err
    assert [run["note"] for run in ictcli.json("runs", "ls", ".")] == ["nothing was learned"]
    names = sorted(path.stem for path in (tmp_path / "run" / "rollouts").iterdir())
    assert names == ["step-000004", "step-000005"]
