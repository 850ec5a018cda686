"""Data sets as tasks: every problem once an epoch, none that is held out, and the same of any kind
of file."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from refusing import refused
from written import Rows, write

from ictcli.errors import UserError
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.rewards import find_verifier
from ictcli.rows import read_file
from ictcli.tasks import find_benchmark, find_task
from ictcli.tasks.custom import read_custom
from ictcli.tasks.hub import read_saved

KINDS = ("jsonl", "csv", "parquet")


@pytest.mark.parametrize("kind", ["parquet", "saved"])
@pytest.mark.parametrize("packed", ["copies", "dictionary", "list"])
def test_data_is_refused_by_what_it_unfolds_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, packed: str
) -> None:
    """Much in kilobytes: by compression, by a dictionary, or as a list of nothing."""
    monkeypatch.setattr("ictcli.rows.LARGEST", 1 << 25)
    text = pa.array(["x" * (1 << 20)])
    column = {
        "copies": lambda: pa.chunked_array([text] * 64),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * 64), text),
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, 1 << 22]), pa.nulls(1 << 22)),
    }[packed]()
    path = save(tmp_path, kind, pa.table({"prompt": column}))
    assert sum(file.stat().st_size for file in (path, *path.glob("*")) if file.is_file()) < 1 << 20
    with refused(f"{path} has more than 2 GiB of data", hint="a part"):
        read(path)


@pytest.mark.parametrize("kind", ["parquet", "saved", "csv", "jsonl"])
def test_rows_have_a_limit_whatever_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("ictcli.rows.MOST", 5)
    for number in (5, 6):
        if kind in ("csv", "jsonl"):
            path = tmp_path / f"rows.{kind}"
            path.write_text("a\n" * (kind == "csv") + '{"a": 1}\n' * number)
        else:
            path = save(tmp_path, kind, pa.table({"a": ["1"] * number}))
        if number == 5:
            assert len(read(path)) == 5
            continue
        with refused(f"{path} has more than 5 rows"):
            read(path)


def read(path: Path) -> list[Any]:
    return (read_saved(str(path), None, "") if path.is_dir() else read_file(str(path))).rows


def save(folder: Path, kind: str, table: pa.Table) -> Path:
    """Packed as small as it gets."""
    if kind == "parquet":
        parquet.write_table(table, folder / "rows.parquet", compression="zstd")
        return folder / "rows.parquet"
    path = Path(write(folder, [{"a": "1"}], "folder", "saved"))
    (path / "dataset_info.json").write_text("{}")
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(next(path.glob("*.arrow")), table.schema, options=options) as file:
        file.write_table(table)
    return path


# What is read of a file

TWO = {"question": "a?", "choices": ["x", " y "]}
READ: dict[str, tuple[Rows, dict[str, str], list[tuple[str, str, str]], str]] = {
    "fields of several names": (
        [
            {"prompt": "a", "gold": "1"},
            {"question": "b", "answer": "so it is\n#### 2"},
            {"problem": "c", "gold": 3, "extra": None},
        ],
        {},
        [("1", "a", "1"), ("2", "b", "2"), ("3", "c", "3")],
        "integer",
    ),
    "a named gold, behind the hashes, in the last boxes or whole": (
        [{"q": "a", "s": gold} for gold in ("so\n#### 1,000", r"\boxed{3} or \boxed{4}.", "x^2")],
        {"prompt": "q", "gold": "s"},
        [("1", "a", "1,000"), ("2", "a", "3, 4"), ("3", "a", "x^2")],
        "math",
    ),
    "boxes of a solution": (
        [
            {"problem": "a", "solution": r"so \boxed{1} or \boxed{\frac{1}{2}}."},
            {"problem": "b", "solution": r"\boxed{4}", "answer": "5"},
            {"problem": "c", "solution": r"\boxed{6}", "answer": None},
            {"problem": "d", "solution": "no idea"},
        ],
        {},
        [("1", "a", r"1, \frac{1}{2}"), ("2", "b", "5"), ("3", "c", "6")],
        "math",
    ),
    "ids": (
        [{"prompt": "a", "gold": "1", "id": i} for i in ("x", None, "x")],
        {},
        [("x", "a", "1"), ("2", "a", "1"), ("x#2", "a", "1")],
        "integer",
    ),
    "letters and indices": (
        [{**TWO, "answer": gold} for gold in ("B", "(b)", 1, "1", "b.")],
        {},
        [(str(i), "a?\n(A) x\n(B) y", "B") for i in range(1, 6)],
        "choice",
    ),
}


@pytest.mark.parametrize("form", READ)
def test_what_a_row_may_look_like(tmp_path: Path, form: str) -> None:
    rows, names, expected, verifier = READ[form]
    bench = find_benchmark(write(tmp_path, rows), columns=ColumnSettings(**names))
    assert [(p.id, p.prompt, p.gold) for p in bench.problems(None)] == expected
    assert bench.problems(2) == bench.problems(None)[:2]
    assert bench.domain.verify is find_verifier(verifier)
    out = len(rows) - len(expected)
    left_out = f"{out} of the {len(rows)} problems"
    assert [note.startswith(left_out) for note in bench.notes] == [True] * bool(out)


NAMED = ColumnSettings(prompt="frage", gold="antwort", id="nr", choices="wahl")


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\0")).filter(str.strip),
        min_size=1,
        max_size=6,
    )
)
def test_every_kind_of_file_gives_the_same_problems(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str]
) -> None:
    """Whatever ends a line elsewhere (U+2028) too."""
    more = {"antwort": "B", "wahl": ["x, y", "z"]}
    rows = [{"frage": p, "nr": f"0{i}", **more} for i, p in enumerate(prompts)]
    for kind in KINDS:
        own = read_custom(write(tmp_path_factory.getbasetemp(), rows, kind), NAMED)
        assert [(p.id, p.prompt, p.gold) for p in own.problems] == [
            (row["nr"], f"{row['frage']}\n(A) x, y\n(B) z", "B") for row in rows
        ]
        assert own.verifier == "choice" and own.problems[0].choices == ("x, y", "z")


ROW = '{"prompt": "a", "gold": 1}'


@pytest.mark.parametrize(
    ("file", "content", "ids", "prompts"),
    [
        ("a.JSONL", '{"prompt": "1+1", "gold": 2}', ["1"], ["1+1"]),
        ("b.Csv", "prompt,gold\nx,2", ["2"], ["x"]),
        ("b.jsonl", f"\n{ROW}\n\n{ROW}", ["2", "4"], ["a", "a"]),
        ("l.jsonl", '{"prompt": "a\u2028b\x85", "gold": 1}\n', ["1"], ["a\u2028b\x85"]),
        ("s.csv", '\ufeffprompt,gold\n"a\nb",1\nc,2\n', ["2", "4"], ["a\nb", "c"]),
        ("e.csv", '"prompt";gold\na, b;1\n"c;d";2\n', ["2", "3"], ["a, b", "c;d"]),
        ("t.csv", "prompt\tgold\na, b\t1\nc;d\t2\n", ["2", "3"], ["a, b", "c;d"]),
    ],
)
def test_a_row_is_known_by_its_first_line(
    tmp_path: Path, file: str, content: str, ids: list[str], prompts: list[str]
) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    found = read_custom(str(tmp_path / file)).problems
    assert [p.id for p in found] == ids and [p.prompt for p in found] == prompts


# What is refused


@pytest.mark.parametrize(
    ("row", "words", "hint"),
    [
        ({**TWO, "answer": "C"}, "not one of its 2 choices", "a letter, A to B"),
        ({**TWO, "answer": -1}, "not one of its 2 choices", ""),
        ({**TWO, "answer": "9" * 5000}, "not one of its 2", ""),
        ({**TWO, "choices": ["x"], "answer": 0}, "no list of choices", "2 to 26"),
        ({**TWO, "choices": ["x", ["y"]], "answer": 0}, "no list of choices", ""),
        ({"question": "a?", "answer": "A"}, "no list of choices", ""),
        (TWO, "has no gold or answer", "each row needs text"),
        ({**TWO, "answer": None}, "has an empty answer", "fill it in"),
        ({**TWO, "answer": math.inf}, "has an empty answer", ""),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: dict[str, Any], words: str, hint: str) -> None:
    with refused("rows.jsonl, line 2 ", words, hint=hint):
        find_benchmark(write(tmp_path, [{**TWO, "answer": 0}, row]))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("d.csv", "prompt,gold\na,1\n\nb,2,3\n", r"line 4 has 3 cells, but the header 2"),
        ("d.csv", "prompt,gold\na,1\nb\n", "line 3 has no gold"),
        ("d.csv", 'prompt,gold\n"a"b,1\n', "line 2 is not CSV"),
        ("d.csv", "prompt,gold\n", "is empty"),
        ("d.parquet", "PAR1 or so", r"d\.parquet is not Parquet"),
        ("d.jsonl", '[{"prompt": "1+1", "gold": 2}]\n', "line 1 is a list, not an object"),
        ("d.jsonl", '{"prompt": ["1+1"], "gold": 2}\n', "has a list, not text, as its prompt"),
        ("d.json", "{}", "line 1 has no prompt"),
        ("d.json", '{"messages": [{"role": "user", "content": "1+1"}]}', "line 1 has no gold"),
        ("d.json", '["1+1"]', "row 1 is text, not an object"),
        ("d.txt", "{}", "d.txt is a file or folder that ictcli cannot read"),
    ],
)
def test_a_file_of_another_form_is_told_what_it_is(
    tmp_path: Path, file: str, content: str, words: str
) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    for find in (find_task, find_benchmark):
        with pytest.raises(UserError, match=words):
            find(str(tmp_path / file))


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, kind: str) -> None:
    name = write(tmp_path, [{"frage": "a", "antwort": "1"}], kind)
    with refused(f"{name} has no column 'question'; it has frage, antwort."):
        find_benchmark(name, columns=ColumnSettings(prompt="question"))
    told = "columns.prompt=frage columns.gold=antwort, or use the column names prompt, question, "
    with refused("the prompt or the gold; it has frage, antwort.", hint=told):
        find_benchmark(name)
    told = "each row needs text there; this one has frage, antwort; columns.gold=NAME names another"
    with refused(f"rows.{kind}, ", " has no gold", hint=told):
        find_benchmark(name, columns=ColumnSettings(prompt="frage"))


@pytest.mark.parametrize("find", [find_task, find_benchmark])
def test_what_has_data_of_its_own_takes_no_columns_and_no_other_data(find: Any) -> None:
    for name in ("gsm8k", "chain"):
        with refused("columns.gold = x cannot be used"):
            find(name, columns=ColumnSettings(gold="x"))
        with refused("hub.split = x cannot be used"):
            find(name, hub=HubSettings(split="x"))
    for name in ("chain", "data.jsonl"):
        with refused("data = other.jsonl cannot be used"):
            find(name, data="other.jsonl")


def test_a_gold_in_an_object_is_named_with_a_dot(tmp_path: Path) -> None:
    model = {"ground_truth": "2", "style": "rule"}
    name = write(tmp_path, [{"prompt": "1+1", "reward_model": model, "answer": {"value": 2}}])
    for column in ("reward_model.ground_truth", "answer.value"):
        columns = ColumnSettings(gold=column)
        assert [p.gold for p in find_benchmark(name, columns=columns).problems(None)] == ["2"]
    with refused("has an object, not text, as its answer", hint="columns.gold=answer.value"):
        find_benchmark(name)
    with refused("(did you mean reward_model.style?)"):
        find_benchmark(name, columns=ColumnSettings(gold="reward_model.styl"))
