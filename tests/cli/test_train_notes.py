"""What `ictcli train` notes of a recipe and its data, and says at its end."""

import fcntl
import json
import os
import re
import struct
import termios
from pathlib import Path

import pytest
from processes import Processes, Small, refusal

from ictcli.console.live import sparkline
from ictcli.text import wrapped

SMALL = ("steps=1", "prompts=2", "group=2", "max_tokens=8", "eval.problems=4", "eval.n=4")


def write(folder: Path, questions: list[str]) -> None:
    rows = [{"question": question, "answer": str(n)} for n, question in enumerate(questions)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))


@pytest.fixture
def own(tiny_model: Path) -> Small:
    return "train", "chain", "task=own.jsonl", "prompt.suffix=", *SMALL, f"model={tiny_model}"


def test_notes_tell_of_prompts_that_are_lost_dense_steps_and_few_held_out_problems(
    ictcli: Processes, own: Small, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path, [f"{n}+{n}=" if n % 16 else f"What is {n}+{n}?" for n in range(80)])
    more = ("warmup=3", 'log=["tensorboard"]', "--run", "run")
    ended = ictcli.done(*own, "eval.problems=64", *more)
    assert ended.err.count("log:   tensorboard --logdir run/tensorboard\n") == 2
    for told in (
        r'loses characters of \d of \d\d questions: of "What", "is", "',
        "ict chooses no token: warmup = 3 has each of the 1 steps train every",
        "held-out problems to evaluate on, of the 64",
        "next:  ictcli inspect run",
    ):
        assert re.search(told, ended.err)
    named = ("eval", tiny_model, "--bench", "own.jsonl", "--n", "1", "max_tokens=4")
    evaluated = ictcli.run(*named, "prompt.suffix=", "--limit", "32")
    assert "note: tied: The model's tokenizer loses characters of 2 of 32 prompts" in evaluated.err


def test_a_dry_run_times_steps_if_asked(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    dry = ("train", "chain", *small, "steps=40", "eval.every=10", "log=['wandb']", "--dry-run")
    assert "time: not known without a timed step; --dry-run --time" in ictcli.run(*dry).err
    time = ictcli.json(*dry, "--time")["time"]
    assert (time["dense_steps"], time["steps"], time["evaluations"]) == (2, 38, 5)
    parts = 2 * time["dense_step"] + 38 * time["step"] + 5 * time["evaluation"] + time["load"]
    assert time["seconds"] == pytest.approx(parts, abs=0.1) and min(time.values()) > 0
    assert list(tmp_path.iterdir()) == []
    told = ictcli.refused(*dry, "--time", "--memory", "16")
    assert "--time is of this machine, --memory of another" in told


def test_lost_questions_are_left_out(ictcli: Processes, own: Small, tmp_path: Path) -> None:
    for lost in (1, 9):
        lines = ["two plus three" + "!" * n for n in range(lost)]
        write(tmp_path, lines + [f"{n}+{n}=" for n in range(60)])
        ended = ictcli.run(*own, "--run", f"run-{lost}")
        assert "loses characters of" in ended.err and '"two", "plus", "three' in ended.err
        assert ended.code == (0 if lost == 1 else 2), ended.err
    assert "Nothing is learned from what the model cannot read." in refusal(ended, 2)
    data = json.loads((tmp_path / "run-1" / "environment.json").read_text())["data"]
    assert data["left_out"] in ({"unread": 1}, {"heldout_unread": 1})
    assert data["train"]["problems"] + data["heldout"]["problems"] <= 60
    assert not (tmp_path / "run-9" / "environment.json").exists()


def test_a_sparkline_draws_noise_flat_and_change_high() -> None:
    assert sparkline([0.50, 0.501, 0.499], 10, 0.1) == "▁▁▁"
    assert sparkline([1000.0, 1001.0], 10) == sparkline([0.0, 0.0], 10, 0.1) == "▁▁"
    assert sparkline([0.1, 0.9], 10, 0.1) == "▁█"


@pytest.mark.parametrize("width", [20, 40])
def test_sentences_wrap_at_words_on_a_terminal_alone(width: int, tmp_path: Path) -> None:
    line = "warning: a sentence of a good many words, to be broken: engine.micro_tokens=1024"
    main, side = os.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with os.fdopen(side, "w") as terminal, (tmp_path / "log").open("w") as log:
        broken = wrapped(line, terminal)
        assert wrapped(line, log) == line
    os.close(main)
    assert broken.split() == line.split()
    assert all(len(part) <= width or " " not in part for part in broken.split("\n"))
    assert broken.count("\n") >= 1 + (width < 40)
