"""`ictcli compare`: methods on the same problems, stopped and continued."""

import json
import random
import re
import shutil

import pytest
from comparing import METHODS, SEEDS, Comparison
from processes import refusal

from ictcli.tables.numbers import interval, percent, points
from tests.cases import first


def test_every_method_is_trained_with_every_seed(whole: Comparison) -> None:
    folders = {path.name for path in (whole.folder / "whole").iterdir() if path.is_dir()}
    assert folders == {f"{method}-s{seed}" for method in METHODS for seed in SEEDS}
    found = whole.numbers("whole")
    assert list(found["estimates"]["pass@1"]) == ["(before)", *METHODS]
    assert found["seeds"] == list(SEEDS) and found["failed"] == []


def test_methods_of_one_seed_begin_alike(whole: Comparison) -> None:
    for seed in SEEDS:
        first = [
            json.loads(
                (whole.folder / "whole" / f"{m}-s{seed}" / "metrics.jsonl").open().readline()
            )
            for m in METHODS
        ]
        assert first[0]["reward"] == first[1]["reward"]
        assert first[0]["entropy"] == first[1]["entropy"]
        assert first[0]["share_kept"] < first[1]["share_kept"] == 1


def test_forks_are_counted_on_the_same_rollouts(whole: Comparison) -> None:
    ict, grpo = whole.numbers("whole")["forks"]
    assert grpo["own"]["share"] == grpo["own"]["recall"] == 1
    assert 0.1 <= ict["own"]["share"] < 0.2
    assert grpo["own"]["precision"] == pytest.approx(grpo["random_at_own"]["precision"])


def test_the_gradient_is_shared_out_over_the_tokens(whole: Comparison) -> None:
    found = whole.numbers("whole")["attribution"]
    assert found
    for method, each in found.items():
        assert each["runs"] in (1, 2) and each["steps"] == 1  # a step may have no gradient
        whole_kinds = [s["share"]["value"] for s in each["shares"] if s["regime"] is None]
        by_regime = [s["share"]["value"] for s in each["shares"] if s["regime"]]
        assert sum(whole_kinds) == pytest.approx(1) == pytest.approx(sum(by_regime))
        assert (each["uniqueness"] is None) == (method == "grpo")


def test_it_says_what_accuracy_costs_here_and_on_another_model(whole: Comparison) -> None:
    found = whole.numbers("whole")["efficiency"]
    rollouts, dense = found["units"].values()
    assert rollouts["budget"] == 4 * rollouts["step"]["ict"] == 4 * rollouts["step"]["grpo"]
    assert dense["step"]["ict"] < dense["step"]["grpo"] and found["model"] == "Qwen2.5-0.5B"
    page = (whole.folder / "whole" / "report.md").read_text()
    assert "In CPU seconds, up to" in page and "In dense steps of Qwen2.5-0.5B, up to" in page


def test_killed_and_continued_it_gives_the_same_numbers(whole: Comparison) -> None:
    at = random.SystemRandom().randrange(1, 14)
    print("killed after step", at)
    killed = whole.kill_at(whole.start("killed"), "killed", at)
    assert re.search(r"time left: about \S+, then \S+ for 3 runs", killed.err)
    assert not (whole.folder / "killed" / "comparison.json").exists()
    ended = whole.run("killed")
    assert ended.code == 0, ended.err
    assert ("continued" in ended.err) or ("finished before" in ended.err)
    assert whole.numbers("killed") == whole.numbers("whole")


def test_repeated_it_trains_nothing_again_and_its_tables_name_methods_and_intervals(
    whole: Comparison,
) -> None:
    before = whole.numbers("whole")
    short = whole.run("whole", form="")
    rows = [line.split()[0] for line in short.out.splitlines() if line.strip()]
    assert rows == ["method", "before", *METHODS] and "of the paper's claims" in short.err
    assert "note: Two seeds hardly show" in " ".join(short.err.split())
    ended = whole.run("whole", "--details", form="")
    assert ended.code == 0 and whole.numbers("whole") == before
    assert ended.err.count("finished before") == 4 and "step " not in ended.err
    rows = [line.split()[0] for line in ended.out.splitlines() if line.strip()]
    tables = ["method", "before", *METHODS, "method", *METHODS, "method"]
    tables += [*whole.numbers("whole")["attribution"], "minus", "ict", "verdict"]
    assert rows[: len(tables)] == tables
    claims = whole.numbers("whole")["claims"]
    words = ("supported", "contradicted", "undecided", "equal", "measured", "not")
    verdicts = [word for word in rows[len(tables) :] if word in words]  # long claims are folded
    assert verdicts == [claim["verdict"].split()[0] for claim in claims]
    assert claims[0]["name"] == "ict is better than grpo on chain at this size: pass@1"
    assert claims[0]["name"] in ended.out
    (difference,) = [line for line in ended.out.splitlines() if line.startswith("ict ")][-1:]
    estimates = whole.numbers("whole")["differences"]
    values = [points(by_label["ict"]["value"]) for by_label in estimates.values()]
    assert all(value in difference for value in values)
    before = next(line for line in ended.out.splitlines() if line.startswith("before"))
    for by_label in whole.numbers("whole")["estimates"].values():
        each = by_label["(before)"]
        assert f"{percent(each['value'])} {interval(each['low'], each['high'], percent)}" in before


def test_it_says_of_each_method_what_is_sharpening(whole: Comparison) -> None:
    found, page = whole.numbers("whole"), (whole.folder / "whole" / "report.md").read_text()
    assert list(found["sharpening"]) == list(found["readable"]) == [*METHODS]
    assert list(found["estimates"]["greedy"]) == ["(before)", *METHODS]
    assert "greedy" not in found["differences"]  # no test more, and no p larger for it
    for label, parts in found["sharpening"].items():
        assert f"{label}: {parts['sentence']}" in page.replace("\\", "")
        gains = [found["estimates"]["pass@1"][each]["value"] for each in (label, "(before)")]
        assert parts["gain"]["value"] == pytest.approx(gains[0] - gains[1])


def test_runs_of_another_recipe_are_not_mixed_in(whole: Comparison) -> None:
    told = refusal(whole.run("whole", "steps=5"), 2)
    assert "was trained with another recipe" in told and "--out OTHER" in told


def test_a_smaller_comparison_does_not_replace_the_report(whole: Comparison) -> None:
    kept = shutil.copytree(whole.folder / "whole", whole.folder / "kept")
    before = {path.name: path.read_bytes() for path in kept.iterdir() if path.is_file()}
    told = refusal(whole.run("kept", "--seeds", "1"), 2)
    assert "without 1 seed." in told and "rm kept/comparison.json gives the report up" in told
    assert {path.name: path.read_bytes() for path in kept.iterdir() if path.is_file()} == before
    (kept / "comparison.json").unlink()
    ended = whole.run("kept", "--seeds", "1")
    assert ended.code == 0 and whole.numbers("kept")["seeds"] == [0]


@pytest.mark.parametrize("seeds", first([1, 2]))
def test_runs_in_processes_of_their_own_are_the_same(whole: Comparison, seeds: int) -> None:
    """Several at a time."""
    out, named = f"jobs-{seeds}", ("--methods", "grpo", "--seeds", str(seeds))
    ended = whole.run(out, *named, "--jobs", "2")
    assert ended.code == 0, ended.err
    assert ended.err.count("finished in") == seeds
    for seed in SEEDS[:seeds]:
        for name in ("metrics.jsonl", "eval/before.jsonl", "eval/after.jsonl"):
            one, other = (whole.folder / each / f"grpo-s{seed}" / name for each in ("whole", out))
            assert one.read_bytes() == other.read_bytes()


def test_a_run_that_fails_is_told_and_the_others_go_on(whole: Comparison) -> None:
    ended = whole.run("bad", "lr=1e30", "steps=9", "entropy=0.01", "--seeds", "1")
    assert "Traceback" not in ended.err and ended.err.count("failed: run") == 2
    assert "Every run of the comparison failed" in refusal(ended, 1)


def test_a_dry_run_trains_nothing_and_says_what_it_takes(whole: Comparison) -> None:
    varied = ("--sweep", "keep=0.1,0.2", "--tune", "lr=1e-3,2e-3")
    ended = whole.run("dry", *varied, "--dry-run")
    assert ended.code == 0, ended.err
    assert not (whole.folder / "dry").exists()
    found = json.loads(ended.out)
    labels = [one["label"] for one in found["runs"]]
    assert labels.count("ict keep=0.2") == 6 + 2 and len(labels) == found["left"] == 24
    assert len(found["measured"]) == 3  # two shares of ict, and grpo
    assert found["bytes"] == sum(one["bytes"] for one in found["runs"]) > 0
    assert 0 < found["seconds"] <= sum(one["seconds"] for one in found["runs"]) + 60
    ended = whole.run("dry", "--methods", "grpo", "--dry-run", "--jobs", "64", form="")
    assert "2 runs, 2 of them to do: about" in ended.err and "more than there are" in ended.err


def test_what_was_found_is_written_down(whole: Comparison) -> None:
    found = whole.numbers("whole")
    assert found["format"] == 4 and found["baseline"] == "grpo"
    for method in METHODS:
        runs = [whole.folder / "whole" / f"{method}-s{seed}" for seed in SEEDS]
        summaries = [json.loads((run / "summary.json").read_text()) for run in runs]
        after = [summary["after"]["pass@1"]["value"] for summary in summaries]
        assert found["estimates"]["pass@1"][method]["value"] == pytest.approx(sum(after) / 2)
        shares = [summary["tokens_kept_share"] for summary in summaries]
        trained = found["training"][method]
        assert trained["tokens_kept_share"] == pytest.approx(sum(shares) / 2)
        mean = found["estimates"]["pass@1"][method]["value"]
        assert found["passk"][method]["1"] == mean
    assert found["overlap"]["jaccard"][0][0] == 1 and 0 < found["overlap"]["jaccard"][0][1] < 0.5
    assert sum(found["places"]["ict"]["position"]) == pytest.approx(1)
    values = found["uniqueness"]["value"]
    assert values == sorted(values, reverse=True) and values[0] <= 0.6932


@pytest.mark.thorough
def test_controls_show_what_the_warm_up_and_the_choice_of_tokens_did(whole: Comparison) -> None:
    named = ("warmup=2", "--methods", "ict,ict control=permuted", "--stop-after-warmup")
    named += ("--seeds", "1")
    ended = whole.run("stopped", *named, form="")
    assert ended.code == 0, ended.err
    found = whole.numbers("stopped")
    beyond = found["differences_from_stopped"]["pass@1"]["ict"]
    after = {label: each["value"] for label, each in found["estimates"]["pass@1"].items()}
    assert beyond["value"] == pytest.approx(after["ict"] - after["stop-after-warmup"])
    own = found["differences_from_method"]["pass@1"]
    assert own.keys() == {"ict (permuted)"}
    assert own["ict (permuted)"]["value"] == pytest.approx(after["ict (permuted)"] - after["ict"])
    assert not [claim["name"] for claim in found["claims"] if "permuted" in claim["name"]]
    for rival, is_shown in (("stop-after-warmup", True), ("own method", True), ("grpo", False)):
        assert (f"minus {rival}" in ended.out) == is_shown
    ict, control = (
        [json.loads(line) for line in (whole.folder / "stopped" / run / "metrics.jsonl").open()]
        for run in ("ict-s0", "stop-after-warmup-s0")
    )
    assert len(control) == 2 < len(ict)
    for name in ("reward", "entropy", "loss", "grad_norm", "share_kept", "lr"):
        assert [step[name] for step in control] == [step[name] for step in ict[:2]]
