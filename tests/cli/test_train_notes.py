"""What `ictcli train` says of a recipe, its data, its end, and a run that does not learn; and
`ictcli check`, of a training that is not begun, what the training then does."""

import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from processes import Processes, Small, refusal
from safetensors.numpy import load_file, save_file
from written import numbered, write

from ictcli.console.live import sparkline
from ictcli.evaluation.evaluate import grade_command
from ictcli.runs import Run
from ictcli.tasks.prepare import task_of

SMALL = ("steps=1", "prompts=2", "group=2", "max_tokens=8", "eval.problems=4", "eval.n=4")
QUESTIONS = [f"{n}+{n % 7}=" for n in range(60)]


@pytest.fixture
def own(tiny_model: Path) -> Small:
    return "train", "chain", "task=rows.jsonl", "prompt.suffix=", *SMALL, f"model={tiny_model}"


def test_a_sparkline_draws_noise_flat_and_shares_on_a_fixed_scale() -> None:
    assert sparkline([0.50, 0.501, 0.499], 10, 0.1) == "▁▁▁"
    assert sparkline([0.1, 0.9], 10, 0.1) == "▁█"
    assert sparkline([0.21, 0.24], 10, share=True) == "▂▂"


def test_notes_tell_of_prompts_that_are_lost_dense_steps_and_few_held_out_problems(
    ictcli: Processes, own: Small, tiny_model: Path, tmp_path: Path
) -> None:
    asked = (f"{n}+{n}=" if n % 16 else f"What is {n}+{n}?" for n in range(80))
    write(tmp_path, numbered(asked))
    more = ("warmup=3", 'log=["tensorboard"]', "--run", "run")
    ended = ictcli.done(*own, "eval.problems=64", *more)
    assert ended.err.count("log:   tensorboard --logdir run/tensorboard\n") == 2
    for told in (
        r'loses characters in \d of \d\d questions, for example in "What", "is", "',
        "ict never selects tokens: with warmup = 3 all 1 steps train every",
        "held-out problems to evaluate on, not the 64",
        "next:  ictcli inspect run",
    ):
        assert re.search(told, ended.err)
    named = ("eval", tiny_model, "--bench", "rows.jsonl", "--n", "1", "max_tokens=4")
    evaluated = ictcli.run(*named, "prompt.suffix=", "--limit", "32")
    assert "note: tied: The model's tokenizer loses characters in 2 of 32 prompts" in evaluated.err


def test_lost_questions_are_left_out(ictcli: Processes, own: Small, tmp_path: Path) -> None:
    for lost in (1, 9):
        lines = ["two plus three" + "!" * n for n in range(lost)]
        write(tmp_path, numbered(lines + [f"{n}+{n}=" for n in range(60)]))
        ended = ictcli.run(*own, "--run", f"run-{lost}")
        assert "loses characters in" in ended.err and '"two", "plus", "three' in ended.err
        assert ended.code == (0 if lost == 1 else 2), ended.err
    assert "A model learns nothing from text that it cannot read." in refusal(ended, 2)
    data = json.loads((tmp_path / "run-1" / "environment.json").read_text())["data"]
    assert data["left_out"] in ({"unread": 1}, {"heldout_unread": 1})
    assert data["train"]["problems"] + data["heldout"]["problems"] <= 60
    assert not (tmp_path / "run-9" / "environment.json").exists()


@pytest.fixture
def failing(own: Small, tmp_path: Path) -> Small:
    """Training on data that the model never gets right."""
    write(tmp_path, numbered(QUESTIONS, "forty-two thousand"))
    return *own, "warmup=0", "eval.problems=2"


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if "Nothing is learned" in line]


def test_five_steps_without_a_signal_are_told(ictcli: Processes, failing: Small) -> None:
    ended = ictcli.run(*failing, "steps=7", "--run", "my run")
    assert ended.code == 4, ended.err
    (warning,) = told(ended.err)
    assert ended.err.index("step 5/7") < ended.err.index(warning) < ended.err.index("step 6/7")
    assert re.search(r", as [\d.]+ % of the (groups have no|responses) .*\. Next: ", warning)
    assert re.search(r"step 1/7 .* unparsed \S+ %  truncated \S+ %  ", ended.err)


def test_a_run_without_a_signal_stops_if_it_should(
    ictcli: Processes, failing: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = (r"reward.pattern=(\S+)", "steps=9", "--run", "my run")
    text = ictcli.refused(*failing, *pattern, "alarms.no_signal=stop", code=1)
    assert "Nothing is learned" in text and "step-000005" in text
    monkeypatch.chdir(tmp_path)
    run, recipe = Run.open(Path("my run"))
    file = run.folder / "eval" / "before.jsonl"
    command = grade_command(file, task_of(recipe).domain, recipe.plugins) or ""
    graded = ictcli.done(*shlex.split(command)[1:])
    counts = dict(re.findall(r"^(\w+) +(\d+) ", graded.out, re.MULTILINE))
    samples = (tmp_path / "my run" / "eval" / "before.jsonl").read_text().splitlines()
    assert counts["wrong"] == str(sum('"status": "wrong"' in line for line in samples)) != "0"


def test_the_alarm_can_be_switched_off(ictcli: Processes, failing: Small, tmp_path: Path) -> None:
    more = ("steps=5", "alarms.no_signal=off", "record.rollouts_every=4", "--run", "run")
    ended = ictcli.run(*failing, *more)
    assert ended.code == 4 and not told(ended.err), ended.err
    assert "Nothing was learned, because no group had unequal rewards in 5" in ended.err
    again = ictcli.run("resume", "run")
    assert again.code == 4 and "Nothing was learned" in again.err
    assert [run["note"] for run in ictcli.json("runs", "ls", ".")] == ["nothing was learned"]
    names = sorted(path.stem for path in (tmp_path / "run" / "rollouts").iterdir())
    assert names == ["step-000004", "step-000005"]


def test_a_check_asks_the_first_step_s_problems(
    ictcli: Processes, small: Small, tmp_path: Path
) -> None:
    write(tmp_path, numbered(QUESTIONS))
    write(tmp_path, numbered([*QUESTIONS[:3], "7+ 1 0=", "1-1="]), name="test")
    own = ("task=rows.jsonl", "eval.bench=test.jsonl", "prompt.suffix=", *small)
    checked = ictcli.json("check", "chain", *own)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "test.jsonl"]
    tried = checked["tried"]
    assert (tried["groups"]["total"], checked["train"], len(tried["shown"])) == (4, 57, 3)
    verdicts = ("correct", "wrong", "unparsed", "timeout")
    assert sum(tried["sampled"][name] for name in verdicts) == 4 * 4
    assert checked["heldout"] == 5
    assert checked["command"].startswith("ictcli train chain task=rows.jsonl")
    time = tried["time"]
    assert time["evaluations"] == 2 and time["evaluation"] > 0
    assert any("golds are read as" in note for note in checked["notes"])


def test_ctrl_c_ends_a_check_with_what_it_has(
    ictcli: Processes, small: Small, tmp_path: Path
) -> None:
    running = ictcli.start("check", "chain", *small, "prompts=9000")
    running.says("its first answer")
    running.send(signal.SIGINT)
    ended = running.wait()
    assert ended.code == 130 and "\nanswers: " in ended.out and "no verdict" in ended.out
    assert "Traceback" not in ended.err and not list(tmp_path.iterdir())


def test_it_refuses_what_train_would_and_a_model_without_probabilities(
    ictcli: Processes, small: Small, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path, numbered([*QUESTIONS, "1+" * 80]))
    own = ("task=rows.jsonl", "prompt.suffix=", *small)
    assert "prompt.max_tokens=104 leaves such" in ictcli.refused("check", "chain", *own)
    file = shutil.copytree(tiny_model, tmp_path / "bad") / "model.safetensors"
    weights = load_file(file)
    next(each for name, each in weights.items() if "q_proj.weight" in name)[0, 0] = np.nan
    save_file(weights, file, {"format": "pt"})
    for words in (["check", "chain", *small, "model=bad"], ["generate", "bad", "1+2="]):
        assert "logits are infinite or not a number" in ictcli.refused(*words, code=1)


def test_it_advises_against_a_training_that_would_learn_nothing(
    ictcli: Processes, failing: Small
) -> None:
    check = ("check", *failing[1:])
    ended = ictcli.run(*check)
    assert ended.code == 4, ended.err
    verdict, command = ended.out.splitlines()[-2:]
    assert re.match(r"verdict: Not yet: .*; 0 of \d+ groups \(0-\d+ %\) have unequal", verdict)
    typed = ["ictcli", *check]
    words = shlex.split(command.removeprefix("next: "))
    assert words[:3] == typed[:3] and set(words) - set(typed) and "--seconds" not in command
    assert "nothing read" in ended.out or ": read " in ended.out
    short = ictcli.run(*check, "--seconds", "0.001")
    assert short.code == 4 and "Not known" in short.out and short.out.endswith("--seconds=0.004\n")
    tight = ictcli.run(*check, "engine.memory_limit=0.001")
    assert tight.code == 4 and "The run does not fit" in tight.out
    assert "groups:" not in tight.out
