"""`ictcli runs ls`, `show` and `diff` of a run that was trained."""

import json
from pathlib import Path

from processes import Ended, Processes, refusal


def test_the_list_has_a_run_s_line(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    folder = trained[0].parent
    ended = ictcli.run("runs", "ls", folder, folder=tmp_path)
    assert ended.code == 0
    head, *rows = ended.out.splitlines()
    assert head.split()[:3] == ["run", "state", "step"]
    (row,) = [row for row in rows if row.split()[0] == str(trained[0])]
    assert row.split()[1:4] == ["finished", "6/6", "chain"]
    (told,) = [
        one
        for one in json.loads(ictcli.run("runs", "ls", folder, "--json", folder=tmp_path).out)
        if one["run"] == str(trained[0])
    ]
    summary = json.loads(trained[1].out)
    assert told["after"] == summary["after"]["pass@1"]["value"]
    assert told["seconds"] == summary["wall_s"]


def test_a_run_is_shown_and_differs_from_itself_in_nothing(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    run = trained[0]
    ended = ictcli.run("runs", "show", run, folder=tmp_path)
    assert ended.code == 0 and f"next:  ictcli eval {run} --bench chain" in ended.err
    for told in (f"{run}: finished, step 6 of 6", "lr=0.003", "step-000006", "ictcli train"):
        assert told in ended.out
    found = json.loads(ictcli.run("runs", "show", run, "--json", folder=tmp_path).out)
    assert [one["label"] for one in found["evaluations"]] == ["before", "step-000003", "after"]
    assert [one["step"] for one in found["checkpoints"]] == [4, 6]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert found["bytes"]["total"] == sum(path.stat().st_size for path in files)
    ended = ictcli.run("runs", "diff", run, run, folder=tmp_path)
    assert "recipe: the same" in ended.out and "environment: the same" in ended.out
    assert "+0.000 [" in ended.out and "] *" not in ended.out


def test_what_is_no_run_is_refused(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    for args in (("show", "nosuch"), ("diff", trained[0], "nosuch")):
        ended = ictcli.run("runs", *args, folder=tmp_path)
        assert "There is no run nosuch, here or in runs/." in refusal(ended, 2)
    assert "There is no folder runs" in refusal(ictcli.run("runs", "ls", folder=tmp_path), 2)
    one = ictcli.run("runs", "diff", trained[0], folder=tmp_path)
    assert "takes two runs" in refusal(one, 2)
