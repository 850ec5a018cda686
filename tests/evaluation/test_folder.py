"""The folder of an evaluation: whose it is, and that nothing of another's is touched."""

from pathlib import Path

import pytest
from refusing import refused

from ictcli.errors import UserError
from ictcli.evaluation.folder import opened

SETTINGS = {"format": 1, "n": 2}
LEFT = (".settings.json.123.tmp", ".results.md.7.tmp")
OTHERS = (".notes.txt.123.tmp", ".tmpabcdef", "inner/.results.md.7.tmp")


def begin(out: Path, *, resume: bool = False) -> bool:
    """Whether an evaluation is resumed there."""
    with opened(out, out, "name", SETTINGS, resume=resume, say=print) as (folder, resumed):
        assert folder == out
    return resumed


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["mine.jsonl", *OTHERS])
def test_a_folder_of_other_files_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str, resume: bool
) -> None:
    put(tmp_path, name)
    before = tree(tmp_path)
    with pytest.raises(UserError, match="is not empty and no evaluation's"):
        begin(tmp_path, resume=resume)
    assert tree(tmp_path) == before


def test_leftovers_are_swept_where_they_are_ours_alone(tmp_path: Path) -> None:
    put(tmp_path, ".lock", *LEFT)  # killed before it wrote its settings
    assert not begin(tmp_path)
    assert set(tree(tmp_path)) == {".lock", "settings.json"}
    put(tmp_path, *LEFT, *OTHERS)
    assert begin(tmp_path, resume=True)
    assert set(tree(tmp_path)) == {".lock", "settings.json", *OTHERS}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"editor.tabSize": 2}', "\udcff"])
def test_settings_that_are_spoiled_or_another_program_s_cannot_be_read(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "settings.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    before = (tmp_path / "settings.json").read_bytes()
    for resume in (False, True):
        with pytest.raises(UserError, match=r"settings\.json cannot be read"):
            begin(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    assert (tmp_path / "settings.json").read_bytes() == before


@pytest.mark.parametrize("name", ["afile", "afile/x", "afile/x/y"])
def test_a_file_is_no_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path, "afile")
    with refused("cannot be written", name, hint="--out OTHER"):
        begin(tmp_path / name)
