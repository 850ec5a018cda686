"""What an evaluation leaves on disk: what a kill leaves, what was changed, what is missing, what is
private; and that nothing of another's is touched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation import samples as files
from ictcli.evaluation.folder import opened
from ictcli.rewards import Verdict
from ictcli.types import Problem, Rollouts

N, CHUNK = 2, 2
PROBLEMS = [Problem(f"é{i}\u2028", f"question {i}", "B", ("w", "x", "y", "z")) for i in range(5)]


def rollouts(rows: int) -> Rollouts:
    lengths = np.arange(1, rows + 1, dtype=np.int32)
    tokens = np.zeros((rows, rows), dtype=np.int32)
    return Rollouts(((1,),) * (rows // N), N, tokens, lengths, lengths % 3 != 0, tokens * 0.0)


def lines(problems: list[Problem], verdict: Verdict, **more: Any) -> list[dict[str, Any]]:
    rows = N * len(problems)
    texts = [f"the answer to question {row // N} is \\boxed{{q}}\n" for row in range(rows)]
    more = {"private": False, **more}
    return files.make_samples("b", problems, N, rollouts(rows), texts, [verdict] * rows, **more)


def recover(path: Path, *, private: bool = False) -> list[files.Sample]:
    return files.SampleFile(path, CHUNK, True).recover(PROBLEMS, N, private=private)


def test_wherever_a_file_is_cut_the_whole_chunks_are_kept_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "whole.jsonl"
    written = lines(PROBLEMS, Verdict("wrong", "x\u2028y", "a\nb"))
    files.SampleFile(path).append(written)
    content = path.read_bytes()
    ends = [0, *(place + 1 for place, byte in enumerate(content) if byte == ord("\n"))]
    path = tmp_path / "cut.jsonl"
    for cut in (*range(0, len(content), 5), *ends):
        path.write_bytes(content[:cut])
        problems = sum(end <= cut for end in ends[1:]) // N
        kept = 5 if problems == 5 else problems // CHUNK * CHUNK
        assert recover(path) == [files.Sample.model_validate(each) for each in written[: kept * N]]
        assert path.read_bytes() == content[: ends[kept * N]]


@pytest.mark.parametrize(
    "change",
    [
        *("not json", "[]", '{"id": "x"}', None),
        *({"prompt": "question 7"}, {"gold": "C"}, {"status": "right"}, {"prompt": None}),
    ],
)
def test_a_line_that_was_changed_or_taken_out_is_named(
    tmp_path: Path, change: str | dict[str, str | None] | None
) -> None:
    path = tmp_path / "b.jsonl"
    files.SampleFile(path).append(lines(PROBLEMS, Verdict("wrong", "A")))
    raw = path.read_text().split("\n")
    if isinstance(change, dict):
        change = json.dumps(json.loads(raw[3]) | change)
    raw[3:4] = [] if change is None else [change]
    path.write_text("\n".join(raw))
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"b\.jsonl, line [45] is not what this evaluation wrote"):
        recover(path)
    assert path.read_bytes() == before


def test_private_lines_go_by_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    files.SampleFile(path).append(lines(PROBLEMS, Verdict("wrong", "A"), private=True))
    assert len(recover(path, private=True)) == 10
    with refused("line 1"):
        recover(path)


@pytest.mark.parametrize("end", ["one line of a user's", '{"prompt": "1+1", "gold": "2"}'])
def test_a_last_line_that_is_not_ours_is_not_cut(tmp_path: Path, end: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text(end)
    with refused("line 1"):
        recover(path)
    assert path.read_text() == end


def test_a_missing_sample_is_no_wrong_one() -> None:
    for rows, verdicts, words in ((10, 9, "9 verdicts, but 10"), (8, 10, "8 responses, but 10")):
        found = [Verdict("correct")] * verdicts
        with pytest.raises(RunFailedError, match=f"{words} were expected"):
            files.make_samples("b", PROBLEMS, N, rollouts(rows), [""] * 10, found, private=False)


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [
        (Verdict("wrong", "A"), "A"),
        (Verdict("unparsed", "question 1, I think", "ValueError: question 1"), ""),
        (Verdict("wrong", "question 1 again"), ""),
    ],
)
def test_private_samples_hold_a_letter_and_lengths(verdict: Verdict, kept: str) -> None:
    found = lines(PROBLEMS, verdict, private=True)
    assert all(set(line) == {"id", "status", "extracted", "tokens", "finished"} for line in found)
    assert {line["extracted"] for line in found} == {kept}
    assert "question" not in json.dumps(found) and "gold" not in json.dumps(found)


SETTINGS = {"format": 1, "n": 2}
LEFT = (".settings.json.123.tmp", ".results.md.7.tmp")


def begin(out: Path, *, resume: bool = False) -> None:
    with opened(out, out, "name", SETTINGS, resume=resume, say=print) as folder:
        assert folder == out


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.parametrize("name", ["mine.jsonl", "inner/.results.md.7.tmp"])
def test_a_folder_of_other_files_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    before = tree(tmp_path)
    for resume in (False, True):
        with refused("holds no evaluation"):
            begin(tmp_path, resume=resume)
    assert tree(tmp_path) == before


def test_what_a_kill_left_is_nothing_of_another_s(tmp_path: Path) -> None:
    put(tmp_path, ".lock", *LEFT)  # killed before it wrote its settings
    begin(tmp_path)
    begin(tmp_path, resume=True)
    assert set(tree(tmp_path)) == {".lock", "settings.json", *LEFT}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"editor.tabSize": 2}', "\udcff"])
def test_settings_that_are_spoiled_or_another_program_s_cannot_be_read(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "settings.json").write_bytes(before := text.encode("utf-8", "surrogateescape"))
    for resume in (False, True):
        with refused("settings.json cannot be read"):
            begin(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    assert (tmp_path / "settings.json").read_bytes() == before


@pytest.mark.parametrize("name", ["afile", "afile/x", "afile/x/y"])
def test_a_file_is_no_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path, "afile")
    with refused("cannot be written", name, hint="--out OTHER"):
        begin(tmp_path / name)
