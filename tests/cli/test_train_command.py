"""`ictcli train` from the outside: its streams, and the folder it leaves."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
from processes import Ended, Processes

from ictcli.algorithm.selection import share_count
from ictcli.recipe import load_recipe
from ictcli.recipe.metrics import METRICS, known
from ictcli.runs import Run, read_rollouts
from ictcli.runs.read import read_lines
from ictcli.runs.records import StepTimings

Trained = tuple[Path, Ended]
JSONS = ("json", "jsonl")


def test_every_number_of_the_metrics_is_known_by_its_name(trained: tuple[Path, Ended]) -> None:
    names = {name for line in Run(trained[0]).metrics() for name in line.to_json()}
    evaluations = {name for name in names if name.startswith("eval/pass@")}
    assert evaluations and names - evaluations - {"step", "finite"} <= set(known())
    assert {name for name, each in METRICS.items() if each.when == "every step"} <= names


def test_a_process_of_its_own_trains_a_model(tiny_model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ictcli", "train", "chain", f"model={tiny_model}"]
    small = ["steps=2", "prompts=2", "group=2", "max_tokens=8", "eval.problems=4"]
    ended = subprocess.run([*command, *small], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "runs" / "chain-ict-s0"
    assert (folder / "summary.json").is_file()
    lines = [line for line in ended.stderr.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["1/2", "2/2"]
    assert re.search(r"^pass@1 .*\npass@4 ", ended.stdout, re.MULTILINE)  # the table alone
    assert "step" not in ended.stdout
    assert "Nothing was learned, because" in ended.stderr  # a random model earns one reward
    told = ended.stderr.splitlines()[-5:]
    assert told[0] == f"model: {folder.relative_to(tmp_path)}/model"
    assert told[1].startswith("next:  ictcli eval runs/chain-ict-s0")
    assert told[2] == "next:  ictcli inspect runs/chain-ict-s0"
    assert told[3] == 'next:  ictcli generate runs/chain-ict-s0 "PROMPT"'
    assert told[4] == "next:  ictcli export runs/chain-ict-s0"


def test_the_summary_on_stdout_is_the_folder_s(trained: Trained) -> None:
    folder, ended = trained
    summary = json.loads(ended.out)
    assert summary == json.loads((folder / "summary.json").read_text())
    assert {"before", "after", "steps", "wall_s", "tokens_sampled"} <= summary.keys()
    assert summary["steps"] == 6
    for when in ("before", "after"):
        assert summary[when].keys() == {"pass@1", "pass@4", "greedy"}
        for found in summary[when].values():
            assert found.keys() == {"value", "low", "high"}
            assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
    assert 0 < summary["tokens_kept_share"] < 1
    assert summary["wall_s"] > 0
    parts = summary["sharpening"]
    assert parts["tried"] == [1.0, 0.0, 0.3, 0.7] and parts["gain"] == summary["change"]["pass@1"]
    assert parts["sentence"].startswith("Of the change in pass@1 at temperature 1")


def test_the_folder_holds_all_that_was_promised(trained: Trained) -> None:
    folder, _ = trained
    found = {path.name for path in folder.iterdir()} - {".lock"}
    files = {"recipe.toml", "environment.json", "metrics.jsonl", "timings.jsonl", "summary.json"}
    files |= {"manifest.json"}
    assert found == files | {"rollouts", "eval", "checkpoints", "model"}
    assert [path.name for path in Run(folder).checkpoints()] == ["step-000004", "step-000006"]
    evaluations = {path.name for path in (folder / "eval").iterdir()}
    others = {"before@0.jsonl", "before@0.3.jsonl", "before@0.7.jsonl", "after@0.jsonl"}
    names = {f"{n}.{e}" for n in ("before", "step-000003", "after") for e in JSONS}
    assert evaluations == names | others


def test_the_recipe_in_the_folder_is_the_resolved_one(
    trained: Trained, small: tuple[str, ...]
) -> None:
    more = ("steps=6", "checkpoint.every=2", "eval.every=3")
    more = (*more, "record.rollouts_every=3", "record.probe_every=2")
    assert load_recipe(trained[0] / "recipe.toml") == load_recipe("chain", [*small, *more])


def test_every_step_leaves_one_line_of_metrics_and_one_of_timings(trained: Trained) -> None:
    metrics = [line.to_json() for line in Run(trained[0]).metrics()]
    timings = [line.to_json() for line in read_lines(trained[0] / "timings.jsonl", StepTimings)]
    assert [line["step"] for line in metrics] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in timings] == [1, 2, 3, 4, 5, 6]
    assert all(line["updates"] == 1 and line["finite"] for line in metrics)
    assert {"reward", "entropy", "renyi2", "share_kept", "grad_norm", "kl"} <= metrics[0].keys()
    assert ["eval/pass@1" in line for line in metrics] == [False, False, True, False, False, False]
    assert ["probe_error" in line for line in metrics] == [False, True] * 3


def test_recorded_rollouts_show_which_tokens_were_trained(trained: Trained) -> None:
    folder, _ = trained
    names = sorted(path.name for path in (folder / "rollouts").iterdir())
    assert names == ["step-000003.safetensors", "step-000006.safetensors"]
    arrays, about = read_rollouts(folder / "rollouts" / names[1])
    B = len(arrays["tokens"])
    assert (B, about["step"], about["group"]) == (16, 6, 4)
    assert len(about["prompts"]) == len(about["problems"]) == 4
    assert len(about["texts"]) == len(about["verdicts"]) == B
    assert ((arrays["weights"] > 0) == arrays["kept"]).all() and arrays["kept"].any()
    for row in range(B):  # kept are the tokens of highest uniqueness
        n = int(arrays["lengths"][row])
        u, kept = arrays["stats/uniqueness"][row, :n], arrays["kept"][row, :n]
        assert kept.sum() <= share_count(0.1, n)
        assert u[kept].min(initial=np.inf) >= u[~kept].max(initial=0)


def test_a_dry_run_prints_a_recipe_that_reads_back_equal(
    ictcli: Processes, small: tuple[str, ...], tmp_path: Path
) -> None:
    overrides = (*small, "method.scope=group", "eval.k=[1]", "seed=3")
    ended = ictcli.run("train", "chain", *overrides, "--dry-run", folder=tmp_path)
    assert ended.code == 0
    assert ended.err.strip().startswith("plan: 100 steps of 4 prompts x 4 rollouts")
    assert tomllib.loads(ended.out)["method"] == {"name": "ict", "scope": "group"}
    copy = tmp_path / "copy.toml"
    copy.write_text(ended.out)
    assert load_recipe(copy) == load_recipe("chain", overrides)
    assert list(tmp_path.iterdir()) == [copy]


def test_a_key_the_method_does_not_look_at_is_noted(ictcli: Processes, tmp_path: Path) -> None:
    ended = ictcli.run("train", "chain", "method=grpo", "keep=0.5", "--dry-run", folder=tmp_path)
    assert ended.code == 0
    assert ended.err.startswith("note: keep has no effect with method=grpo\n")


def test_threads_and_priority_are_in_force_while_a_recipe_is_read_and_trained(
    ictcli: Processes, small: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "tell.py").write_text(
        "import os, sys\n"
        "print('nice', os.nice(0), os.environ['OMP_NUM_THREADS'], file=sys.stderr)\n"
    )
    overrides = [text.replace("plugins=[", "plugins=['tell.py',") for text in small]
    more = ("steps=1", "--run", "run", "--nice", "2", "--threads", "3")
    ended = ictcli.run("train", "chain", *overrides, *more, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert f"nice {os.nice(0) + 2} 3" in ended.err
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["engine"]["threads"] == 3
    again = ictcli.run("resume", "run", "--nice", "20", folder=tmp_path)
    assert again.code == 2 and "--nice" in again.err
