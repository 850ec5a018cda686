"""`ictcli compare`: methods on the same problems, stopped and continued; of what is killed, lost or
broken it says so, and the rest goes on."""

import json
import random
import shutil
from pathlib import Path

import pytest
from comparing import METHODS, SEEDS, Comparison
from processes import refusal

from ictcli.tables.numbers import interval, percent, points


def test_every_method_is_trained_with_every_seed_and_begins_alike(whole: Comparison) -> None:
    folders = {path.name for path in (whole.folder / "whole").iterdir() if path.is_dir()}
    assert folders == {f"{method}-s{seed}" for method in METHODS for seed in SEEDS}
    for seed in SEEDS:
        runs = [whole.folder / "whole" / f"{method}-s{seed}" for method in METHODS]
        ict, grpo = (json.loads((run / "metrics.jsonl").open().readline()) for run in runs)
        assert (ict["reward"], ict["entropy"]) == (grpo["reward"], grpo["entropy"])
        assert ict["share_kept"] < grpo["share_kept"] == 1
    listed = whole.ictcli.json("runs", "ls", "whole", folder=whole.folder)
    states = {run["run"]: run["state"] for run in listed}
    assert states == {f"whole/{name}": "finished" for name in folders}


def test_killed_and_continued_it_gives_the_same_numbers(whole: Comparison) -> None:
    """In the last of its runs: in any of them a run is killed in test_resume_command."""
    shutil.copytree(whole.folder / "whole", whole.folder / "killed")
    (whole.folder / "killed" / "comparison.json").unlink()
    shutil.rmtree(whole.folder / "killed" / "grpo-s1")
    at = random.SystemRandom().randrange(13, 16)
    print("killed after step", at)
    whole.kill_at(whole.start("killed"), "killed", at)
    assert not (whole.folder / "killed" / "comparison.json").exists()
    ended = whole.run("killed")
    assert ended.err.count("finished before") == 3 and "continued" in ended.err
    assert whole.numbers("killed") == whole.numbers("whole")


def test_repeated_it_trains_nothing_and_shows_the_figures(whole: Comparison) -> None:
    found = whole.numbers("whole")
    ended = whole.run("whole", "--details", form="")
    assert whole.numbers("whole") == found
    assert ended.err.count("finished before") == 4 and "step " not in ended.err
    (line,) = [line for line in ended.out.splitlines() if line.startswith("pass@1  ict")]
    assert points(found["differences"]["pass@1"]["ict:grpo"]["value"]) in line
    assert "by pass@1 over 2 seeds and 8 problems" in ended.err
    reached = ended.out.partition("\n\n")[0]
    for by_label in found["estimates"].values():
        each = by_label["(before)"]
        assert f"{percent(each['value'])} {interval(each['low'], each['high'], percent)}" in reached


def test_a_run_that_fails_is_told_and_the_others_go_on(whole: Comparison) -> None:
    ended = whole.run("bad", "lr=1e15", "steps=9", "entropy=0.01", "--seeds", "1", code=1)
    assert "Traceback" not in ended.err and ended.err.count("failed: run") == 2
    assert "Every run of the comparison failed" in refusal(ended, 1)


def test_a_dry_run_trains_nothing_and_says_what_it_takes(whole: Comparison) -> None:
    named = ("--methods", "grpo", "--tune", "lr=1e-3,2e-3", "--jobs", "64", "--dry-run")
    ended = whole.run("dry", *named)
    assert not (whole.folder / "dry").exists()
    found = json.loads(ended.out)
    assert len(found["runs"]) == 6 + 2 and found["kinds"] == 1
    assert 0 < found["seconds"] <= sum(one["seconds"] for one in found["runs"]) + 60
    assert found["jobs"] == 64 > found["at_once"]


def test_what_was_found_is_written_down(whole: Comparison) -> None:
    found = whole.numbers("whole")
    for metric, its in found["estimates"].items():
        assert list(its) == ["(before)", *METHODS]
        reached = {label: each["value"] for label, each in its.items()}
        (difference,) = found["differences"][metric].values()
        assert difference["value"] == pytest.approx(reached["ict"] - reached["grpo"])
        assert sum(difference["by_seed"]) / 2 == pytest.approx(difference["value"])
    pass_1 = {label: each["value"] for label, each in found["estimates"]["pass@1"].items()}
    assert found["failed"] == []
    for method in METHODS:
        runs = [whole.folder / "whole" / f"{method}-s{seed}" for seed in SEEDS]
        summaries = [json.loads((run / "summary.json").read_text()) for run in runs]
        after = [summary["after"]["pass@1"]["value"] for summary in summaries]
        assert pass_1[method] == pytest.approx(sum(after) / 2)
        shares = [summary["tokens_kept_share"] for summary in summaries]
        trained = found["training"][method]
        assert trained["tokens_kept_share"] == pytest.approx(sum(shares) / 2)


def test_runs_that_began_otherwise_are_not_set_beside_others(whole: Comparison) -> None:
    """What `ictcli resume` would refuse, a comparison does, before it trains or reports anything;
    a record of the beginning that is not the run's own costs the run its place."""
    shutil.copytree(whole.folder / "whole", whole.folder / "other")
    shutil.rmtree(whole.folder / "other" / "grpo-s1")
    path = whole.folder / "other" / "ict-s0" / "environment.json"
    recorded, report = path.read_text(), (whole.folder / "other" / "report.html").read_bytes()
    path.write_text(json.dumps({**json.loads(recorded), "recipe_sha256": "0" * 64}))
    refused = whole.refused("other")
    assert "was changed since the run began" in refused
    assert f"remove the run: rm -r {Path('other', 'ict-s0')}" in refused
    assert not (whole.folder / "other" / "grpo-s1").exists()
    assert (whole.folder / "other" / "report.html").read_bytes() == report
    shutil.copytree(whole.folder / "whole" / "grpo-s1", whole.folder / "other" / "grpo-s1")
    path.write_text(recorded.replace('"threads"', '"strands"'))
    whole.run("other", code=1)
    found = whole.numbers("other")
    assert len(found["failed"]) == 1
    assert "ict-s0/environment.json is not the file that the run wrote" in found["failed"][0]


BROKEN = """
from ictcli.algorithm.methods import Choice, Options, Scored, register

@register("ours: a test")
def broken(batch: Scored, options: Options) -> Choice:
    raise ValueError("broken by design")
"""


@pytest.mark.thorough
def test_a_method_that_tuning_lost_is_said_and_the_rest_goes_on(whole: Comparison) -> None:
    (whole.folder / "broken.py").write_text(BROKEN)
    small = ("plugins=['broken.py']", "steps=1", "eval.problems=2", "--seeds", "1")
    named = ("--methods", "broken,ict", "--contrast", "ict lr=1e-3:ict lr=2e-3")
    varied = ("--tune", "kl=0,0.001", "--sweep", "lr=1e-3,2e-3")
    assert "Traceback" not in whole.run("tuned", *small, *named, *varied, code=1).err
    found = whole.numbers("tuned")
    assert len(found["failed"]) == 4
    assert all("ValueError: broken by design" in line for line in found["failed"])
    assert [note for note in found["notes"] if note.startswith("broken")] == [
        f"broken lr={lr} is left out: none of its tuning runs finished." for lr in ("1e-3", "2e-3")
    ]
    assert found["tuned_key"] == "kl" and list(found["differences"]["pass@1"]) == [named[-1]]
    for one in found["variants"]:
        assert one["lr"] == float(one["label"].split("=")[1])
        assert one["chosen"] in one["tuned"] and set(one["tuned"]) == {"kl=0", "kl=0.001"}
