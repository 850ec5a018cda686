"""What a run writes once has a checksum, and every command says what is no longer as it was."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.runs import manifest
from ictcli.runs.read import in_use, last_record, read_lines, read_record
from ictcli.runs.records import Stamp
from ictcli.runs.show import check_run

NAMES = st.lists(st.sampled_from(["a", "b", "eval/a", "eval/b", "model/a"]), max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@given(st.lists(st.tuples(st.sampled_from(["write", "damage", "delete"]), NAMES), max_size=8))
def test_a_file_is_as_written_until_it_is_changed(
    folder: Path, deeds: list[tuple[str, list[str]]]
) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    known: dict[str, str] = {}
    for turn, (deed, names) in enumerate(deeds):
        for name in names:
            path = folder / name
            if deed == "write":
                with manifest.rewriting(folder, name):
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(f"{turn}")
                known[name] = ""
            elif deed == "damage" and path.exists():
                path.write_text(path.read_text() + "x")
                known[name] = "is not the file that the run wrote"
            elif deed == "delete" and path.exists():
                path.unlink()
                known[name] = "is missing"
    assert manifest.faults(folder) == {name: why for name, why in known.items() if why}
    assert "is missing" not in manifest.altered(folder).values()


def test_a_kill_between_two_writes_leaves_no_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    with manifest.rewriting(tmp_path, "summary.json"):
        path.write_text("1")
    with pytest.raises(KeyboardInterrupt), manifest.rewriting(tmp_path, "summary.json"):
        path.write_text("2")
        raise KeyboardInterrupt
    assert manifest.faults(tmp_path) == {}


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"format": 1, "files": {"a": 1}}', "\x00"])
def test_a_damaged_manifest_is_said(tmp_path: Path, damage: str) -> None:
    (tmp_path / "manifest.json").write_text(damage)
    for found in (manifest.faults(tmp_path), check_run(tmp_path).faults):
        assert list(found) == ["manifest.json"]


def test_a_stranger_s_manifest_has_nothing_read_outside_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for folder in (tmp_path, run):
        os.mkfifo(folder / "pipe")  # reading it would never end
    (run / "link").symlink_to("nothing")
    names = ["../pipe", str(tmp_path / "pipe"), "pipe", "link"]
    files = {name: {"bytes": 1, "sha256": ""} for name in names}
    (run / "manifest.json").write_text(json.dumps({"format": 1, "files": files}))
    outside = ["lies outside the run"] * 2
    found = [*outside, "is not a regular file", "is a broken link"]
    assert list(manifest.faults(run).values()) == list(manifest.altered(run).values()) == found


def test_a_pipe_in_a_run_folder_is_no_file_and_never_waited_for(tmp_path: Path) -> None:
    name = "metrics.jsonl"
    os.mkfifo(tmp_path / ".lock")
    assert not in_use(tmp_path) and manifest.faults(tmp_path) == {}
    os.mkfifo(tmp_path / name)
    assert read_lines(tmp_path / name, Stamp) == []
    assert last_record(tmp_path / name, Stamp) is None
    assert read_record(tmp_path / name, Stamp, strict=False) is None
    with pytest.raises(OSError, match="is not a regular file"):
        read_record(tmp_path / name, Stamp)
