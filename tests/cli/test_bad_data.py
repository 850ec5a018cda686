"""Data sets that cannot be used."""

import json
from pathlib import Path

from processes import Processes

ROWS = [{"prompt": f"{i}+1=", "gold": str(i + 1)} for i in range(60)]
GOOD = "".join(json.dumps(row) + "\n" for row in ROWS)

LONG = json.dumps({"prompt": "1+" * 80, "gold": "1"})
DIGITS = "7" * 6000


def test_a_faulty_line_is_named_before(ictcli: Processes, tiny_model: Path, tmp_path: Path) -> None:
    for content, words in (
        (GOOD.encode() + b"{oops\n", "data.jsonl, line 61 is not JSON"),
        (GOOD.encode() + b'{"prompt": "caf\xe9", "gold": "1"}\n', "data.jsonl"),
        (LONG.encode(), "The prompt of problem 1 takes"),
        (b'{"prompt": "", "gold": "1"}', "The prompt of problem 1 is empty"),
    ):
        (tmp_path / "data.jsonl").write_bytes(content)
        args = ("--bench", "data.jsonl", "max_tokens=8", "--out", "out")
        assert words in ictcli.refused("eval", tiny_model, *args)
        assert not list(tmp_path.glob("out/*.jsonl"))
    (tmp_path / "data.jsonl").write_text(GOOD + LONG)
    args = ("train", "chain", f"model={tiny_model}", "task=data.jsonl", "max_tokens=8")
    assert "The prompt of problem 61 takes" in ictcli.refused(*args, "--run", "run")
    assert not (tmp_path / "run").exists()


def test_nothing_is_too_long_to_be_read(ictcli: Processes, tmp_path: Path) -> None:
    for name, content in (
        ("long.csv", f"response,gold\n{'x ' * 100_000}\\boxed{{5}},5\n"),
        ("digits.jsonl", f'{{"response": "\\\\boxed{{{DIGITS}}}", "gold": {DIGITS}}}\n'),
    ):
        (tmp_path / name).write_text(content)
        assert [row["status"] for row in ictcli.json("grade", name)] == ["correct"]


def test_a_run_is_resumed_on_its_own_problems_alone_and_evaluated_with_its_examples(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("frage,antwort\n" + "".join(f"{i}+1=,{i + 1}\n" for i in range(60)))
    columns = ("columns.prompt=frage", "columns.gold=antwort", "max_tokens=8")
    args = ("train", "chain", f"model={tiny_model}", "task=data.csv", *columns)
    args += ("prompt.shots=1", "prompt.max_tokens=64")
    sizes = ("prompts=8", "group=2", "steps=2", "eval.n=1", "eval.k=[1]", "--run", "run")
    assert "\nexample 1: " in ictcli.done(*args, "--dry-run").err
    assert "left out of training" in ictcli.done(*args, *sizes, "--json").err
    bench = ("--bench", "data.csv", *columns, "--n", "1", "--k", "1", "--out", "out")
    asked = ("eval", "run", *bench)
    assert "shows the answer of 1 of the problems of data.csv" in ictcli.refused(*asked)
    ictcli.done(*asked, "prompt.examples=none")
    (tmp_path / "run" / "summary.json").unlink()
    data.write_text(data.read_text().replace("7+1=", "7+2="))
    assert " changed since run began" in ictcli.refused("resume", "run")
