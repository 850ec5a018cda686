"""`ictcli inspect` without a terminal: text, JSON, the page, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from processes import Processes

from ictcli.runs import read_rollouts


@pytest.fixture(scope="module")
def run(trained: Path) -> Path:
    return trained


def test_text_marks_the_kept_tokens(ictcli: Processes, run: Path) -> None:
    ended = ictcli.done("inspect", run, "--step", "3", "--prompt", "2")
    arrays, about = read_rollouts(run / "rollouts" / "step-000003.safetensors")
    assert "step 3, prompt 2 of 4" in ended.out and about["problems"][1]["prompt"] in ended.out
    kept = int(arrays["kept"][4:8].sum())
    marked = ended.out.split("gold: ")[1].split("[marked]")[0]
    assert len(re.findall(r"\[[^\]]+\]", marked)) == kept > 0
    assert re.search(rf"(?m)^ict +{kept} ", ended.out)
    assert "\x1b" not in ended.out and "highest uniqueness of the group" in ended.out


def test_json_holds_what_was_recorded(ictcli: Processes, run: Path) -> None:
    ended = ictcli.done("inspect", run, "--prompt=1", "--method=random", "--json")
    assert ended.err == ""
    found = json.loads(ended.out)
    assert found["step"] == 6 and found["steps"] == [3, 6] and found["prompts"] == 4
    arrays, about = read_rollouts(run / "rollouts" / "step-000006.safetensors")
    for row, rollout in enumerate(found["rollouts"]):
        n = int(arrays["lengths"][row])
        assert rollout["tokens"] == arrays["tokens"][row, :n].tolist()
        assert rollout["kept"]["trained"] == arrays["kept"][row, :n].tolist()
        assert rollout["advantage"] == pytest.approx(arrays["advantage"][row])
        assert rollout["verdict"] == about["verdicts"][row]["status"]
        for name, values in rollout["stats"].items():
            assert np.array_equal(np.float32(values), arrays[f"stats/{name}"][row, :n])


def test_the_page_is_written_whole_and_while_the_run_trains(
    ictcli: Processes, run: Path, tmp_path: Path
) -> None:
    with FileLock(run / ".lock"):
        ended = ictcli.run("inspect", run, "--html", "sub/group.html")
    assert ended.code == 0 and ended.out.strip() == "sub/group.html"
    (page,) = (tmp_path / "sub").iterdir()
    assert page.read_text("utf-8").endswith("</html>\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN", "--step=4"], "No rollouts were recorded at step 4. recorded: 3, 6"),
        (["RUN", "--prompt=5"], "no prompt 5 in step 6. --prompt takes 1 to 4"),
        (["RUN", "--method=itc"], "did you mean ict"),
        (["RUN", "--by=entropie"], "did you mean entropy"),
        (["RUN", "--html=."], ". is a folder, and --html takes a file. --html ./group.html"),
        (["RUN/recipe.toml"], "no file of recorded rollouts"),
    ],
)
def test_what_is_not_there_is_refused(
    ictcli: Processes, run: Path, arguments: list[str], words: str
) -> None:
    named = [argument.replace("RUN", str(run)) for argument in arguments]
    assert words in ictcli.refused("inspect", *named)


def test_a_run_without_rollouts_says_how_to_record_them(
    ictcli: Processes, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "recipe.toml").write_bytes((run / "recipe.toml").read_bytes())
    told = ictcli.refused("inspect", "bare")
    assert "has no recorded rollouts" in told and "record.rollouts_every" in told
