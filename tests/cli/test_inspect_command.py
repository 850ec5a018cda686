"""`ictcli inspect` without a terminal: text, JSON, the page, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from processes import Processes
from safetensors.numpy import save_file

from ictcli.runs import read_rollouts


def test_text_marks_the_kept_tokens(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("inspect", trained, "--step", "3", "--prompt", "2")
    arrays, about = read_rollouts(trained / "rollouts" / "step-000003.safetensors")
    assert "step 3, prompt 2 of 4" in ended.out and about["problems"][1]["prompt"] in ended.out
    kept = int(arrays["kept"][4:8].sum())
    marked = ended.out.split("gold: ")[1].split("[marked]")[0]
    assert len(re.findall(r"\[[^\]]+\]", marked)) == kept > 0
    assert re.search(rf"(?m)^ict +{kept} ", ended.out)
    assert "\x1b" not in ended.out and "highest uniqueness of the group" in ended.out


def test_json_holds_what_was_recorded(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("inspect", trained, "--prompt=1", "--method=random", "--json")
    assert ended.err == ""
    found = json.loads(ended.out)
    assert found["step"] == 6 and found["steps"] == [3, 6] and found["prompts"] == 4
    arrays, about = read_rollouts(trained / "rollouts" / "step-000006.safetensors")
    for row, rollout in enumerate(found["rollouts"]):
        n = int(arrays["lengths"][row])
        assert rollout["tokens"] == arrays["tokens"][row, :n].tolist()
        assert rollout["kept"]["trained"] == arrays["kept"][row, :n].tolist()
        assert rollout["advantage"] == pytest.approx(arrays["advantage"][row])
        assert rollout["verdict"] == about["verdicts"][row]["status"]
        for name, values in rollout["stats"].items():
            assert np.array_equal(np.float32(values), arrays[f"stats/{name}"][row, :n])


def test_a_page_of_a_run_in_use_is_whole(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    with FileLock(trained / ".lock"):
        ended = ictcli.done("inspect", trained, "--html", "sub/group.html")
    assert ended.out.strip() == "sub/group.html"
    (page,) = (tmp_path / "sub").iterdir()
    assert page.read_text("utf-8").endswith("</html>\n")


def test_what_is_not_there_is_refused(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    for option, words in (
        ("--step=4", "No rollouts were recorded at step 4. recorded: 3, 6"),
        ("--prompt=5", "no prompt 5 in step 6. --prompt takes 1 to 4"),
        ("--method=itc", "did you mean ict"),
        ("--by=entropie", "did you mean entropy"),
        ("--html=.", ". is a folder, and --html takes a file. --html ./group.html"),
    ):
        assert words in ictcli.refused("inspect", trained, option)
    assert "no file of recorded rollouts" in ictcli.refused("inspect", trained / "recipe.toml")
    arrays, about = read_rollouts(trained / "rollouts" / "step-000003.safetensors")
    del arrays["kept"]
    save_file(arrays, tmp_path / "torn.safetensors", {"ictcli": json.dumps(about)})
    assert "no file of recorded rollouts" in ictcli.refused("inspect", "torn.safetensors")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "recipe.toml").write_bytes((trained / "recipe.toml").read_bytes())
    told = ictcli.refused("inspect", "bare")
    assert "has no recorded rollouts" in told and "record.rollouts_every" in told
