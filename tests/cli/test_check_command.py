"""`ictcli check`: what it says of a training is what the training then does."""

import json
from pathlib import Path

import pytest
from processes import Processes, Small

QUESTIONS = [f"{n}+{n % 7}=" for n in range(60)]


def write(path: Path, questions: list[str], answer: str = "") -> None:
    rows = [{"question": q, "answer": answer or str(n)} for n, q in enumerate(questions)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_its_groups_are_the_first_step_s(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    write(tmp_path / "own.jsonl", QUESTIONS)
    write(tmp_path / "test.jsonl", [*QUESTIONS[:3], "7+ 1 0=", "1-1="])
    own = ("task=own.jsonl", "eval.bench=test.jsonl", "prompt.suffix=", *small)
    ended = ictcli.done("check", "chain", *own, "--json", "--price", "36")
    found = json.loads(ended.out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.jsonl", "test.jsonl"]
    tried = found["tried"]
    assert (tried["groups"]["total"], found["train"], len(tried["shown"])) == (4, 57, 3)
    verdicts = ("correct", "wrong", "unparsed", "timed_out")
    assert sum(tried["sampled"][each] for each in verdicts) == 4 * 4
    assert sum(tried["greedy"][each] for each in verdicts) == 4
    assert tried["cost"] == pytest.approx(tried["seconds"] / 100)
    assert found["overlap"]["heldout"] == 5 and found["overlap"]["copies"] == 3
    assert found["overlap"]["near"] == 3  # not "7+ 1 0=" nor "1-1="
    assert found["command"].startswith("ictcli train chain task=own.jsonl")
    ictcli.done("train", "chain", *own, "steps=1", "--run", "run")
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["groups_with_signal"] == tried["groups"]["with_signal"] / 4
    assert first["unparsed"] == tried["sampled"]["unparsed"] / 16
    shown = ictcli.run("runs", "ls")  # those here, as there is no runs/
    assert " own.jsonl " in shown.out and "own.jsonl, " not in ended.out


def test_it_advises_against_a_training_that_would_learn_nothing(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path / "own.jsonl", QUESTIONS, "forty-two thousand")
    own = ("task=own.jsonl", f"model={tiny_model}", "prompt.suffix=", "max_tokens=8", "group=2")
    ended = ictcli.run("check", "chain", *own, "--prompts", "2")
    assert ended.code == 4, ended.err
    assert "groups: 0 of 2 have unequal rewards" in ended.out
    assert "\nverdict: Not yet: no group has unequal rewards" in ended.out
    assert ended.out.splitlines()[-1].startswith("next: ictcli check chain task=own.jsonl")
    assert "prompt 1 of 2" in ended.out and "\n| " in ended.out
    tight = ictcli.run("check", "chain", *own, "engine.memory_limit=0.001")
    assert tight.code == 4 and "It does not fit" in tight.out
    assert "groups:" not in tight.out
