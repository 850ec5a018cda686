"""Data sets that cannot be used."""

import json
import os
from pathlib import Path

import pytest
from processes import Processes, refusal

ROWS = [{"prompt": f"{i}+1=", "gold": str(i + 1)} for i in range(60)]
GOOD = "".join(json.dumps(row) + "\n" for row in ROWS)

FILES = {
    "empty": ("", "The data set data.jsonl is empty"),
    "blank": ("\n \n", "The data set data.jsonl is empty"),
    "malformed": (GOOD + "{oops\n", "data.jsonl, line 61 is not JSON"),
    "cut short": (GOOD[:-5], "data.jsonl, line 60 is not JSON"),
    "no gold": (GOOD + '{"prompt": "1="}\n', "data.jsonl, line 61 has no gold or answer"),
    "no prompt": (GOOD + '{"gold": "1"}\n', "line 61 has no prompt or question or problem"),
    "a list": (GOOD + "[1]\n", "line 61 is a list, and no object"),
    "too long": (
        json.dumps({"prompt": "1+" * 80, "gold": "1"}),
        "The prompt of problem 1 takes",
    ),
    "empty prompt": ('{"prompt": "", "gold": "1"}', "The prompt of problem 1 is empty"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_faulty_line_is_named(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, name: str
) -> None:
    content, words = FILES[name]
    (tmp_path / "data.jsonl").write_text(content)
    args = ("--bench", "data.jsonl", "max_tokens=8", "--out", "out")
    told = refusal(ictcli.run("eval", tiny_model, *args, folder=tmp_path), 2)
    assert words in told
    assert not list(tmp_path.glob("out/*.jsonl"))


def test_a_file_that_is_not_utf_8_is_named(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.jsonl").write_bytes(GOOD.encode() + b'{"prompt": "caf\xe9", "gold": "1"}\n')
    args = ("--bench", "data.jsonl", "max_tokens=8")
    assert "data.jsonl" in refusal(ictcli.run("eval", tiny_model, *args, folder=tmp_path), 2)


LONG = "7" * 6000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("long.csv", f"response,gold\n{'x ' * 100_000}\\boxed{{5}},5\n"),
        ("digits.jsonl", f'{{"response": "\\\\boxed{{{LONG}}}", "gold": {LONG}}}\n'),
    ],
)
def test_nothing_is_too_long_to_be_read(
    ictcli: Processes, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    ended = ictcli.run("grade", name, "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert [row["status"] for row in json.loads(ended.out)] == ["correct"]


@pytest.mark.parametrize("number", ["1e999", "-Infinity"])
def test_a_gold_that_is_not_finite_is_not_called_empty(
    ictcli: Processes, tmp_path: Path, number: str
) -> None:
    (tmp_path / "data.jsonl").write_text(f'{{"response": "5", "gold": {number}}}\n')
    told = refusal(ictcli.run("grade", "data.jsonl", folder=tmp_path), 2)
    assert "data.jsonl, line 1 has a gold that is not finite." in told


@pytest.mark.parametrize("name", [os.devnull, "."])
def test_what_is_no_plain_file_is_called_so(ictcli: Processes, tmp_path: Path, name: str) -> None:
    told = refusal(ictcli.run("grade", name, folder=tmp_path), 2)
    assert told.startswith(f"{name} is no plain file.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "data.jsonl is empty"),
        ("".join(GOOD.splitlines(True)[:2]), "too small to hold a part of it out: 2 problems"),
        (None, "There is no data file data.jsonl"),
    ],
)
def test_a_task_without_enough_problems_is_refused(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "data.jsonl").write_text(content)
    args = ("train", "chain", f"model={tiny_model}", "task=data.jsonl", "--run", "run")
    assert words in refusal(ictcli.run(*args, folder=tmp_path), 2)
    assert not (tmp_path / "run").exists()


def test_a_prompt_too_long_deep_in_the_data_is_found_before_training(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    long = json.dumps({"prompt": "1+" * 80, "gold": "1"})
    (tmp_path / "data.jsonl").write_text(GOOD + long)
    args = ("train", "chain", f"model={tiny_model}", "task=data.jsonl", "max_tokens=8")
    ended = ictcli.run(*args, "prompts=8", "group=2", "--run", "run", folder=tmp_path)
    assert "The prompt of problem 61 takes" in refusal(ended, 2)
    assert not (tmp_path / "run").exists()


def test_a_jsonl_task_trains_and_is_evaluated_on_its_held_out_part(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.jsonl").write_text(GOOD)
    args = ("train", "chain", f"model={tiny_model}", "task=data.jsonl", "max_tokens=8")
    more = ("prompts=8", "group=2", "steps=2", "record.rollouts_every=1", "--run", "run")
    assert ictcli.run(*args, *more, "--json", folder=tmp_path).code == 0
    held = {
        json.loads(line)["prompt"]
        for line in (tmp_path / "run" / "eval" / "after.jsonl").read_text().splitlines()
    }
    assert 0 < len(held) < 20 and held < {row["prompt"] for row in ROWS}


def test_a_run_is_resumed_on_its_own_problems_alone_and_evaluated_with_its_examples(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("frage,antwort\n" + "".join(f"{i}+1=,{i + 1}\n" for i in range(60)))
    args = ("train", "chain", f"model={tiny_model}", "task=data.csv", "max_tokens=8")
    more = (
        "columns.prompt=frage",
        "columns.gold=antwort",
        "prompt.shots=1",
        "prompt.max_tokens=64",
    )
    sizes = ("prompts=8", "group=2", "steps=2", "--run", "run")
    shown = ictcli.run(*args, *more, "--dry-run", folder=tmp_path)
    assert shown.code == 0 and "\nexample 1: " in shown.err
    ended = ictcli.run(*args, *more, *sizes, "--json", folder=tmp_path)
    assert ended.code == 0 and "left out of training" in ended.err
    bench = ("--bench", "data.csv", "columns.prompt=frage", "columns.gold=antwort")
    asked = ("eval", "run", *bench, "max_tokens=8", "--n", "1", "--k", "1", "--out", "out")
    told = refusal(ictcli.run(*asked, folder=tmp_path), 2)
    assert "shows the answer of 1 of the problems of data.csv" in told
    assert ictcli.run(*asked, "prompt.examples=none", folder=tmp_path).code == 0
    (tmp_path / "run" / "summary.json").unlink()
    data.write_text(data.read_text().replace("7+1=", "7+2="))
    ended = ictcli.run("resume", "run", folder=tmp_path)
    assert " changed since run began" in refusal(ended, 2)
