"""`ictcli grade`."""

import json
from pathlib import Path
from typing import Any

from processes import Processes
from written import write

ROWS: list[dict[str, Any]] = [
    {"id": 7, "response": r"so \boxed{\frac{1}{2}}", "gold": "0.5"},
    {"response": r"\boxed{\dfrac{3}{4}}", "gold": r"\frac34"},
    {"response": r"\boxed{3}", "gold": 4},
    {"response": "no box, 5", "gold": "5"},
    {"response": r"\boxed{\sum_{k=1}^{1000} \frac{1}{k!^{k}}}", "gold": r"\sqrt{x}+1"},
]


def test_every_row_has_its_verdict(ictcli: Processes, tmp_path: Path) -> None:
    algebra = {"response": r"\boxed{x^2-1}", "gold": "(x-1)(x+1)"}
    write(tmp_path, [ROWS[0], algebra, *ROWS[2:]])
    found = ictcli.json("grade", "rows.jsonl", "--timeout", "0.5", "--out", "v.jsonl")
    assert [row["status"] for row in found][:4] == ["correct", "correct", "wrong", "unparsed"]
    assert found[4]["status"] != "correct" and [row["line"] for row in found] == [1, 2, 3, 4, 5]
    written = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert written[0]["id"] == 7 and written[0]["extracted"] == r"\frac{1}{2}"
    assert [row["status"] for row in written] == [row["status"] for row in found]


def test_a_copy_of_the_question_is_wrong_and_explained(ictcli: Processes, tmp_path: Path) -> None:
    row = {"response": r"\boxed{(x-1)(x+1)}", "gold": "x^2-1"}
    write(tmp_path, [row, {**row, "question": "Expand $(x-1)(x+1)$."}])
    first, second = ictcli.json("grade", "rows.jsonl", "--explain")
    assert (first["status"], second["status"]) == ("correct", "wrong")
    assert second["reason"] == "copied from the question"


def test_kind_pattern_and_choices_are_heeded(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, [{"response": "A: 1,018", "gold": "1018"}])
    (found,) = ictcli.json("grade", "rows.jsonl", "--kind=integer", "--pattern=^A: (.*)$")
    assert found["status"] == "correct"
    row = {"response": r"\boxed{12 m}", "gold": "B", "choices": ["10 m", "12 m"]}
    write(tmp_path, [row])
    wanted = {"line": 1, "status": "correct", "extracted": "B", "reason": "", "score": None}
    assert ictcli.json("grade", "rows.jsonl", "--kind=choice") == [wanted]


def test_bad_input_is_one_sentence(ictcli: Processes, tmp_path: Path) -> None:
    row = {"response": "a", "gold": "1"}
    write(tmp_path, [row])
    write(tmp_path, [{**row, "choices": "A"}], name="choices")
    for command, words in (
        ("none.jsonl", "There is no data file none.jsonl"),
        ("choices.jsonl", "choices is not a list"),
        ("rows.jsonl --kind=mth", "did you mean math"),
        ("rows.jsonl --timeout=0", "--timeout and --memory must be positive"),
        ("rows.jsonl --kind=no.py", "but no function in it"),
        ("rows.jsonl --out=.", "--out . is a folder"),
        ("rows.jsonl --out=no/v.jsonl", "needs the folder no."),
    ):
        assert words in ictcli.refused("grade", *command.split())


def test_explain_says_how_each_side_was_read(ictcli: Processes, tmp_path: Path) -> None:
    write(tmp_path, ROWS[:4])
    ended = ictcli.done("grade", "rows.jsonl", "--explain")
    lines = ended.out.splitlines()
    assert lines[:3] == [
        "line 1: correct",
        r"  answer  \frac{1}{2}, read as the number 1/2 (the last box)",
        "  gold    0.5, read as the number 1/2",
    ]
    counts = {line.split()[0]: line.split()[1:] for line in lines[13:]}
    assert counts["correct"] == ["2", "50.0", "%"]
    assert "1 x no answer in a box or after ####" in ended.err
    command = ("grade", "rows.jsonl", "--explain", "--json", "--out", "v.jsonl")
    found = json.loads(ictcli.run(*command).out)
    assert found[0]["explanation"]["gold"] == {"text": "0.5", "meaning": "the number 1/2"}
    written = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["explanation"] for row in written] == [row["explanation"] for row in found]
    assert [row["gold"] for row in written] == ["0.5", r"\frac34", 4, "5"]  # the file's own
