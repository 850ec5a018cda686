"""`ictcli compare` when something is killed, lost or broken: it says so, and the rest goes on."""

import json
import shutil
import signal
import time
from pathlib import Path

import pytest
from comparing import METHODS, SEEDS, Comparison
from filelock import FileLock
from processes import refusal


def test_a_dry_run_that_is_stopped_names_no_folder_of_its_own(whole: Comparison) -> None:
    running = whole.start("dry", "eval.problems=512", "eval.n=64", "--dry-run")
    limit = time.monotonic() + 60
    while "timing 1/2" not in running.err.read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    time.sleep(0.3)
    running.send(signal.SIGINT)
    told = refusal(running.wait(), 130)
    assert "Interrupted while timing" in told and "ictcli-" not in told


def test_a_killed_comparison_takes_its_processes_along(whole: Comparison) -> None:
    """They end after the step in flight, which they save, and the folder is free again."""
    named = ("steps=5000", "checkpoint.every=5000", "--methods", "grpo", "--seeds", "1")
    whole.kill_at(whole.start("orphans", *named, "--jobs", "2"), "orphans", 2)
    run = whole.folder / "orphans" / "grpo-s0"
    with FileLock(run / ".lock", timeout=5):
        done = whole.steps("orphans")
        saved = [path.name for path in (run / "checkpoints").iterdir()]
        assert saved == [f"step-{done:06d}"] and done < 5000
        time.sleep(0.2)
        assert whole.steps("orphans") == done


@pytest.mark.thorough
def test_what_is_lost_of_a_finished_comparison_is_told(whole: Comparison) -> None:
    """Without a run's metrics its figures come from the other seed; where no seed is left that both
    methods finished, nothing is said of their difference."""
    shutil.copytree(whole.folder / "whole", whole.folder / "lost")
    (whole.folder / "lost" / "ict-s0" / "metrics.jsonl").unlink()
    for seed in SEEDS:
        shutil.rmtree(whole.folder / "lost" / f"grpo-s{seed}" / "rollouts")
    ended = whole.run("lost")
    assert ended.code == 1 and "Traceback" not in ended.err
    found = whole.numbers("lost")
    assert len(found["failed"]) == 1 and "ict-s0/metrics.jsonl is missing" in found["failed"][0]
    assert found["notes"] == ["No step of grpo says where the gradient went."]
    assert found["failed"][0] in ended.err
    seeds = {label: one["seeds"] for label, one in found["estimates"]["pass@1"].items()}
    assert seeds == {"(before)": 2, "ict": 1, "grpo": 2}
    assert found["differences"]["pass@1"]["ict"]["seeds"] == 1
    (whole.folder / "lost" / "grpo-s1" / "eval" / "after.json").write_text("{")
    ended = whole.run("lost", form="")
    found = whole.numbers("lost")
    assert ended.code == 1 and len(found["failed"]) == 2
    assert found["differences"] == {"pass@1": {}, "pass@4": {}}
    note = "ict and grpo have no seed that both finished: nothing is said of their difference."
    assert note in found["notes"] and f"note: {note}" in ended.err


def test_runs_that_began_otherwise_are_not_set_beside_others(whole: Comparison) -> None:
    """What `ictcli resume` would refuse, a comparison does, before it trains or reports anything;
    a record of the beginning that is not the run's own costs the run its place."""
    shutil.copytree(whole.folder / "whole", whole.folder / "other")
    shutil.rmtree(whole.folder / "other" / "grpo-s1")
    path = whole.folder / "other" / "ict-s0" / "environment.json"
    recorded, report = path.read_text(), (whole.folder / "other" / "report.html").read_bytes()
    for part, told in (
        (("data", "heldout", "sha256"), "The problems to evaluate on changed since"),
        (("model", "sha256"), "is not the one that the run began with"),
        (("recipe_sha256",), "was changed since the run began"),
    ):
        changed = inner = json.loads(recorded)
        *outer, last = part
        for key in outer:
            inner = inner[key]
        inner[last] = "0" * 64
        path.write_text(json.dumps(changed))
        ended = whole.run("other")
        refused = refusal(ended, 2)
        assert told in refused and f"rm -r {Path('other', 'ict-s0')} trains" in refused
        assert not (whole.folder / "other" / "grpo-s1").exists()
        assert (whole.folder / "other" / "report.html").read_bytes() == report
    path.write_text(recorded.replace('"threads"', '"strands"'))
    ended = whole.run("other")
    found = whole.numbers("other")
    assert ended.code == 1 and len(found["failed"]) == 1
    assert "ict-s0/environment.json is not what the run wrote" in found["failed"][0]


BROKEN = """
from ictcli.algorithm.methods import Choice, Options, Scored, register

@register("ours: a test")
def broken(batch: Scored, options: Options) -> Choice:
    raise ValueError("broken by design")
"""


@pytest.mark.thorough
def test_a_baseline_that_tuning_lost_is_said_and_the_rest_goes_on(whole: Comparison) -> None:
    (whole.folder / "broken.py").write_text(BROKEN)
    small = ("plugins=['broken.py']", "steps=1", "eval.problems=2", "--seeds", "1")
    named = ("--methods", "broken,ict", "--baseline", "broken")
    varied = ("--tune", "kl=0,0.001", "--sweep", "lr=1e-3,2e-3")
    ended = whole.run("tuned", *small, *named, *varied)
    assert ended.code == 1 and "Traceback" not in ended.err
    found = whole.numbers("tuned")
    assert len(found["failed"]) == 4
    assert all("ValueError: broken by design" in line for line in found["failed"])
    assert found["notes"][0] == (
        "The baseline broken has no finished run: differences are from ict lr=1e-3."
    )
    assert found["notes"][1:] == [
        f"broken lr={lr} is left out: none of its tuning runs finished." for lr in ("1e-3", "2e-3")
    ]
    assert (found["swept"], found["tuned_key"]) == (["lr"], "kl")
    for one in found["variants"]:
        assert one["swept"] == {"lr": one["label"].split("=")[1]}
        assert one["lr"] == float(one["swept"]["lr"])
        assert one["chosen"] in one["tuned"] and set(one["tuned"]) == {"kl=0", "kl=0.001"}


def test_the_ratio_of_high_to_low_entropy_is_that_of_the_metrics(whole: Comparison) -> None:
    for label, one in whole.numbers("whole")["training"].items():
        means = []
        for seed in SEEDS:
            path = whole.folder / "whole" / f"{label}-s{seed}" / "metrics.jsonl"
            lines = [json.loads(line)["high_low_ratio"] for line in path.open()]
            means.append(sum(lines) / len(lines))
        assert one["high_low_per_seed"] == pytest.approx(means)
        assert one["high_low_ratio"] == pytest.approx(sum(means) / 2)


def test_a_comparison_is_no_run_and_hides_none(whole: Comparison) -> None:
    assert (whole.folder / "whole" / ".lock").exists()
    runs = json.loads(whole.ictcli.run("runs", "ls", "whole", "--json", folder=whole.folder).out)
    names = {f"whole/{method}-s{seed}" for method in METHODS for seed in SEEDS}
    assert {run["run"]: run["state"] for run in runs} == dict.fromkeys(names, "finished")
    told = refusal(whole.ictcli.run("runs", "show", "whole", folder=whole.folder), 2)
    assert "whole is not a run folder. ictcli runs ls whole lists the runs there are" in told
