"""Laws of reading what runs left: states, damage, and paired differences."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from made_runs import evaluation, interval, write, write_summary

from ictcli.cli import cli
from ictcli.evaluation.passk import bounds_of_mean
from ictcli.files.origin import differing
from ictcli.runs.diff import difference
from ictcli.runs.list import entry, find_runs, list_runs
from ictcli.runs.show import detail

COUNTS = ([4, 0, 1, 2, 3, 3], [1, 1, 1, 1, 3, 0])
N = 4
SAMPLE = {"status": "wrong", "extracted": "", "tokens": 3, "finished": True}


def make_run(folder: Path, counts: list[int], *, finished: bool = True, first: int = 0) -> Path:
    """A run as its files, evaluated on the problems p`first`, ... with so many of N right."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(
        'model = "m"\ntask = "t"\nsteps = 3\n[method]\nname = "x"\n'
    )
    command = ["train", "recipes/mine.toml", "seed=1"]
    data = {"heldout": {"problems": len(counts), "sha256": f"p{first}"}}
    write(folder / "environment.json", {"command": command, "python": "3.11", "data": data})
    for name, values in (
        ("metrics.jsonl", {"reward": 0.5}),
        ("timings.jsonl", {"sample_s": 1.5, "update_s": 0.5, "peak_bytes": 7}),
    ):
        lines = [json.dumps({"step": step, **values}) + "\n" for step in (1, 2, 3)]
        (folder / name).write_text("".join(lines))
    found = evaluation({"pass@1": 0.3, "pass@4": 0.5}, tuple(counts), N).model_dump(mode="json")
    ids = [f"p{first + number // N}" for number in range(N * len(counts))]
    for label in ("before", "after"):
        write(folder / "eval" / f"{label}.json", found)
        (folder / "eval" / f"{label}.jsonl").write_text(
            "".join(json.dumps({**SAMPLE, "id": one}) + "\n" for one in ids)
        )
    if finished:
        write_summary(folder, 0.3, 0.4)
    return folder


def test_a_run_s_state_is_what_its_files_and_its_lock_say(tmp_path: Path) -> None:
    done = make_run(tmp_path / "a" / "done", COUNTS[0])
    cut = make_run(tmp_path / "cut", COUNTS[0], finished=False)
    (tmp_path / "a" / ".lock").touch()  # as a comparison leaves it
    (tmp_path / "other").mkdir()
    assert [path.name for path in find_runs(tmp_path)] == ["done", "cut"]
    found = {Path(one.run).name: one for one in list_runs(tmp_path)}
    assert {name: one.state for name, one in found.items()} == {
        "done": "finished",
        "cut": "stopped",
    }
    recipe = done / "recipe.toml"
    recipe.write_text(recipe.read_text() + 'scope="group"\n[reward]\nsignal = "random"\n')
    assert entry(done).method == "x (random reward)"
    one = found["done"]
    assert (one.model, one.method, one.seed) == ("m", "x", 0)
    assert (one.before, one.after, one.seconds, one.step, one.steps) == (0.3, 0.4, 9.5, 3, 3)
    assert found["cut"].seconds == 6.0
    with FileLock(cut / ".lock"):
        assert entry(cut).state == "running"
        assert entry(cut).state == "running"
    (cut / "failure.json").write_text('{"error": "Entropy collapse."}')
    assert (entry(cut).state, entry(cut).note) == ("failed", "Entropy collapse.")
    assert detail(done).next[0] == f"ictcli eval m {done}"
    assert detail(cut).next == [f"ictcli resume {cut}"]


DAMAGE = {
    "empty": lambda data: b"",
    "torn": lambda data: data[: len(data) // 2],
    "binary": lambda data: b"\xff\xfe\x00" + data,
    "another shape": lambda data: b"[1, null]\n",
    "nulls": lambda data: json.dumps(dict.fromkeys(("steps", "n", "correct"))).encode(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_listed_and_never_fatal(tmp_path: Path, kind: str) -> None:
    whole = make_run(tmp_path / "whole", COUNTS[0])
    names = [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()]
    assert len(names) == 9
    for number, name in enumerate(names):
        run = make_run(tmp_path / f"damaged-{number}", COUNTS[1])
        (run / name).write_bytes(DAMAGE[kind]((run / name).read_bytes()))
        for record in (entry(run), detail(run), difference([whole, run]), difference([run, whole])):
            json.dumps(record.to_json(), allow_nan=False)
    assert len(list_runs(tmp_path)) == len(names) + 1


def test_differences_are_paired_on_the_same_problems_only(tmp_path: Path) -> None:
    first, second = (make_run(tmp_path / str(i), counts) for i, counts in enumerate(COUNTS))
    other = make_run(tmp_path / "other", COUNTS[1], first=1)
    found = difference([first, second, other])
    paired, refused = found.paired
    each = np.array(COUNTS[1]) / N - np.array(COUNTS[0]) / N
    assert paired.scores["pass@1"].value == pytest.approx(each.mean())
    low, high = bounds_of_mean(each, -1.0, 1.0)
    assert (paired.scores["pass@1"].low, paired.scores["pass@1"].high) == (low, high)
    right = [np.array(counts) > 0 for counts in COUNTS]  # pass@4 of 4 samples
    assert paired.scores["pass@4"].value == pytest.approx(right[1].mean() - right[0].mean())
    assert refused.why_not == "they were evaluated on other problems"
    assert found.recipe == {} and found.environment == {}


def test_what_differs_is_every_key_that_is_not_the_same_in_all() -> None:
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4}, "e": 5}
    assert differing([one, other]) == {"b.c": [2, 4], "b.d": [3, None], "e": [None, 5]}
    assert differing([one, one]) == {}
    assert differing([one, {}]) == {}


WITHIN: list[tuple[str, Any]] = [
    ("environment.json", {"command": 5, "engine": [], "libraries": 7, "data": [1], "model": "x"}),
    ("environment.json", {"engine": {"parameters": "many"}, "data": 3, "command": []}),
    ("eval/after.json", {"pass@1": 3, "maj@x": {}, "pass@2": {"value": 1}, "problems": "p"}),
    ("eval/after.json", {"n": N, "correct": COUNTS[0], "pass@x": interval(0.5), "pass@9": [2]}),
    ("eval/after.json", {"n": N, "correct": COUNTS[0], "pass@9": interval(0.5)}),
    ("summary.json", {"after": 3, "before": {"pass@1": [1]}, "wall_s": 10**400, "steps": "x"}),
]


@pytest.mark.parametrize(("name", "found"), WITHIN)
def test_what_is_damaged_within_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, found: Any
) -> None:
    """By the commands, whole; what is whole beside it is told."""
    good = make_run(tmp_path / "good", COUNTS[0])
    bad = make_run(tmp_path / "bad", COUNTS[0])
    (bad / name).write_text(json.dumps(found))
    for args in (["show", str(bad)], ["diff", str(good), str(bad)], ["diff", str(bad), str(good)]):
        for more in ([], ["--json"]):
            cli.main(["runs", *args, *more], standalone_mode=False)
    cli.main(["runs", "ls", str(tmp_path)], standalone_mode=False)
    assert "good" in capsys.readouterr().out
    assert detail(bad).metrics["reward"].first == 0.5
