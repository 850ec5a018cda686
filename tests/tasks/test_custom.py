"""Custom data sets: the same problems of every kind of file, and of the hub."""

import csv
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pytest
from datasets.exceptions import DatasetNotFoundError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from ictcli.errors import UserError
from ictcli.recipe.tables import ColumnSettings, HubSettings
from ictcli.rows import read_file
from ictcli.tasks import find_benchmark, find_task
from ictcli.tasks.custom import read_custom

COLUMNS = ColumnSettings(prompt="frage", gold="antwort", id="nr", difficulty="stufe")
KINDS = ("jsonl", "csv", "parquet")


def write(folder: Path, kind: str, rows: list[dict[str, Any]]) -> str:
    """The rows as a file, by another's hand than ictcli's."""
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return str(path)


@settings(max_examples=30)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1),
        min_size=1,
        max_size=6,
    )
)
def test_every_kind_of_file_gives_the_same_problems(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = [
        {"frage": p, "antwort": f"0{i}", "nr": f"x{i}", "stufe": i} for i, p in enumerate(prompts)
    ]
    found = [read_custom(write(folder, kind, rows), COLUMNS) for kind in KINDS]
    for own in found:
        assert [(p.id, p.prompt, p.gold) for p in own.problems] == [
            (row["nr"], row["frage"], row["antwort"]) for row in rows
        ]
        assert [p.difficulty for p in own.problems] == [float(i) for i in range(len(prompts))]
        assert own.verifier == "integer"


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, kind: str) -> None:
    name = write(tmp_path, kind, [{"frage": "a", "antwort": "1"}])
    with pytest.raises(UserError) as caught:
        find_benchmark(name, columns=ColumnSettings(prompt="question"))
    assert caught.value.message == f"{name} has no column 'question'; it has frage, antwort."
    with pytest.raises(UserError, match=r"rows\.\w+, (line|row) \d has no prompt") as caught:
        find_benchmark(name)
    assert (caught.value.hint or "").startswith(
        "each row needs one, as text; it has frage, antwort; columns.prompt=NAME names another"
    )


def test_an_empty_cell_is_told_as_one(tmp_path: Path) -> None:
    name = write(tmp_path, "csv", [{"prompt": "a", "gold": "1"}, {"prompt": "b", "gold": ""}])
    with pytest.raises(UserError, match="line 3 has an empty gold") as caught:
        find_benchmark(name)
    assert caught.value.hint == "fill it in, or leave the row out"


@pytest.mark.parametrize("kind", KINDS)
def test_choices_may_stand_in_any_kind_of_file(tmp_path: Path, kind: str) -> None:
    choices: Any = ["x, y", "z"]
    choices = json.dumps(choices) if kind == "csv" else choices
    name = write(tmp_path, kind, [{"question": "a?", "wahl": choices, "answer": "B"}])
    (problem,) = find_benchmark(name, columns=ColumnSettings(choices="wahl")).problems(None)
    assert problem.prompt == "a?\n(A) x, y\n(B) z" and problem.choices == ("x, y", "z")


def test_a_named_gold_is_read_behind_the_hashes_or_in_the_last_boxes(tmp_path: Path) -> None:
    golds = ["7", "so\n#### 1,000", r"so \boxed{3} or \boxed{\frac12}.", "x^2"]
    rows = [{"q": str(i), "s": gold} for i, gold in enumerate(golds)]
    own = read_custom(write(tmp_path, "jsonl", rows), ColumnSettings(prompt="q", gold="s"))
    assert [p.gold for p in own.problems] == ["7", "1,000", r"3, \frac12", "x^2"]
    assert [p.solution for p in own.problems] == [
        r"The answer is \boxed{7}.",
        "so\nThe answer is \\boxed{1,000}.",
        golds[2],
        r"The answer is \boxed{x^2}.",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("prompt,gold\na,1\n\nb,2,3\n", r"line 4 has 3 cells, and the header 2"),
        ("prompt,prompt\n", "line 1 names a column twice"),
        ('prompt,gold\n"a"b,1\n', "line 2 is not CSV"),
        ("prompt,gold\n", "is empty"),
        ("", "is empty"),
    ],
)
def test_faulty_csv_is_named_by_its_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=words):
        read_file(str(path))


def test_a_row_over_several_lines_is_known_by_its_first(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('\ufeffprompt,gold\n"a\nb",1\nc,2\nd\n')
    rows = read_file(str(tmp_path / "rows.csv")).rows
    assert [(row.number, row.columns["prompt"]) for row in rows] == [
        (2, "a\nb"),
        (4, "c"),
        (5, "d"),
    ]
    assert rows[2].columns["gold"] is None


def test_what_is_not_parquet_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 or so")
    with pytest.raises(UserError, match=r"rows\.parquet is not Parquet"):
        read_file(str(tmp_path / "rows.parquet"))


@pytest.mark.parametrize("name", ["gsm8k", "chain"])
def test_what_has_columns_of_its_own_takes_no_others(name: str) -> None:
    with pytest.raises(UserError, match=r"columns\.gold is for custom data sets"):
        find_task(name, columns=ColumnSettings(gold="x"))
    with pytest.raises(UserError, match=r"hub\.split is for custom data sets"):
        find_benchmark(name, hub=HubSettings(split="x"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """A hub with one revision, v1, of one data set, and what it is asked for."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(path: str, config: str | None, *, split: str, revision: str | None) -> Any:
        calls.append((path, config, split, revision))
        if revision not in (None, "v1"):
            raise DatasetNotFoundError(f"Revision '{revision}' doesn't exist for dataset '{path}'")
        return [{"q": f"{config} {split} {i}", "a": str(i)} for i in range(60)]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    return calls


NAMED = ColumnSettings(prompt="q", gold="a")


def test_a_data_set_of_the_hub_is_asked_for_as_the_recipe_says(asked: list[Any]) -> None:
    task = find_task("hub:me/mine", columns=NAMED)
    pinned = HubSettings(config="hard", split="dev", revision="v1")
    bench = find_benchmark("hub:me/mine", columns=NAMED, hub=pinned)
    find_benchmark("hub:me/mine", columns=NAMED)
    assert asked == [
        ("me/mine", None, "train", None),
        ("me/mine", "hard", "dev", "v1"),
        ("me/mine", None, "test", None),
    ]
    assert len(task.finite) == 60 and "No revision of me/mine is pinned" in task.notes[0]
    assert [p.prompt for p in bench.problems(2)] == ["hard dev 0", "hard dev 1"]
    assert not bench.notes and bench.source["split"] == "dev"


def test_a_revision_of_a_custom_data_set_that_is_gone_is_refused(asked: list[Any]) -> None:
    with pytest.raises(UserError, match="The data set me/mine has no revision v2"):
        find_task("hub:me/mine", columns=NAMED, hub=HubSettings(revision="v2"))
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["hub:csv", "hub:/etc/x", "hub:", "hub:a/b/c", "hub:../x"])
def test_only_data_sets_of_the_hub_are_asked_of_it(asked: list[Any], name: str) -> None:
    with pytest.raises(UserError, match=r"names no data set of the hub"):
        find_task(name)
    assert not asked
