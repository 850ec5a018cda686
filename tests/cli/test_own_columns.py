"""Data of one's own with names of one's own: said once, they hold for training and evaluation."""

import json
from pathlib import Path

from processes import Processes

DATA = Path(__file__).parents[2] / "examples" / "own-data"
NAMES = ("columns.prompt=puzzle", "columns.gold=solution")
FEW = ("steps=1", "prompts=2", "group=2", "eval.problems=8", "eval.n=1", "eval.k=[1]")


def test_columns_are_named_once(ictcli: Processes, tmp_path: Path) -> None:
    for name in ("train.csv", "test.csv"):
        rows = (DATA / name).read_text().splitlines()[1:]
        (tmp_path / name).write_text("\n".join(["puzzle,solution", *rows]) + "\n")
    train = ("train", "ledger", "data=train.csv", "eval.bench=test.csv", *NAMES, *FEW)
    ended = ictcli.run(*train, "--run", "run", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "train.csv: 48 problems to train on, judged by the verifier integer." in ended.err
    assert "8 of the 32 problems of" in ended.err and "eval.problems=32 takes all" in ended.err
    both = ("eval", "builtin:ledger", "run", "--bench", "test.csv", "--n", "2", "--limit", "4")
    ended = ictcli.run(*both, "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    alone = ("eval", "builtin:ledger", "--bench", "test.csv", *NAMES, *both[5:], "--json")
    first = json.loads(ended.out)[0]
    again = ictcli.run(*alone, "--out", "alone", folder=tmp_path)
    assert again.code == 0, again.err
    told = json.loads(again.out)[0]
    assert first["name"] == told["name"] and first["correct"] == told["correct"]
    assert first["settings"]["prompt"] == told["settings"]["prompt"]
    assert "loses characters" not in again.err  # asked as the recipe asks it, without a suffix


def test_what_is_wrong_with_columns_is_said(ictcli: Processes, tmp_path: Path) -> None:
    rows = [(f"What is {n}+{n}?", n % 7) for n in range(40)]
    lines = ["question,solution", *(f"{question},{answer}" for question, answer in rows)]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    for more, words in (
        ((), "columns.gold=solution takes the whole text"),
        (("columns.prompt=questoin",), "has no column 'questoin' (did you mean question?)"),
        (("columns.prompt=questoin",), "columns.prompt=NAME names the column of the prompt"),
        (("columns.prompt=solution", "columns.gold=question"), "40 problems, 7 different prompts"),
    ):
        ended = ictcli.run("train", "chain", "task=own.csv", *more, folder=tmp_path)
        assert ended.code == 2
        assert words in " ".join(ended.err.split())
