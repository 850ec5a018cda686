"""`ictcli train` from the outside: its streams, and the folder it leaves."""

import json
import os
import tomllib
from pathlib import Path

from processes import Ended, Processes, Small

from ictcli.recipe import load_recipe
from ictcli.recipe.metrics import METRICS, known
from ictcli.runs import Run
from ictcli.runs.read import read_lines
from ictcli.runs.records import StepTimings


def test_every_number_of_the_metrics_is_known_by_its_name(trained: Path) -> None:
    names = {name for line in Run(trained).metrics() for name in line.to_json()}
    evaluations = {name for name in names if name.startswith("eval/pass@")}
    assert evaluations and names - evaluations - {"step", "finite"} <= set(known())
    assert {name for name, each in METRICS.items() if each.when == "every step"} <= names


def test_the_folder_holds_all_that_was_promised(training: tuple[Path, Ended]) -> None:
    folder, ended = training
    summary = json.loads(ended.out)
    assert summary == json.loads((folder / "summary.json").read_text())
    for when in ("before", "after"):
        assert summary[when].keys() == {"pass@1", "pass@4", "greedy"}
    assert summary["steps"] == 6 and 0 < summary["tokens_kept_share"] < 1
    assert summary["sharpening"]["gain"] == summary["change"]["pass@1"]
    files = {"recipe.toml", "environment.json", "metrics.jsonl", "timings.jsonl", "summary.json"}
    files |= {"manifest.json", "rollouts", "eval", "checkpoints", "model"}
    assert {path.name for path in folder.iterdir()} - {".lock"} == files
    found = {f"{n}.{end}" for n in ("before", "step-000003", "after") for end in ("json", "jsonl")}
    for part, names in (
        ("checkpoints", {"step-000004", "step-000006"}),
        ("rollouts", {"step-000003.safetensors", "step-000006.safetensors"}),
        ("eval", found | {"before@0.jsonl", "after@0.jsonl"}),
    ):
        assert {path.name for path in (folder / part).iterdir()} == names


def test_every_step_leaves_one_line_of_metrics_and_one_of_timings(trained: Path) -> None:
    metrics = [line.to_json() for line in Run(trained).metrics()]
    timings = [line.to_json() for line in read_lines(trained / "timings.jsonl", StepTimings)]
    for lines in (metrics, timings):
        assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert all(line["updates"] == 1 and line["finite"] for line in metrics)
    assert {"reward", "entropy", "renyi2", "share_kept", "grad_norm", "kl"} <= metrics[0].keys()
    assert ["eval/pass@1" in line for line in metrics] == [False, False, True, False, False, False]
    assert ["probe_error" in line for line in metrics] == [False, True] * 3


def test_a_dry_run_s_recipe_reads_back(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    overrides = (*small, "method.scope=group", "eval.k=[1]", "seed=3", "adapter.rank=4")
    ended = ictcli.done("train", "chain", *overrides, "--dry-run")
    assert ended.err.startswith("note: adapter.rank has no effect")
    assert "\nplan: 100 steps of 4 prompts x 4 rollouts" in ended.err and "It fits: " in ended.err
    assert tomllib.loads(ended.out)["method"] == {"name": "ict", "scope": "group"}
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "copy.toml").write_text(ended.out)
    assert load_recipe(tmp_path / "copy.toml") == load_recipe("chain", overrides)


def test_threads_and_priority_hold(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(
        "import os, sys\n"
        "print('nice', os.nice(0), os.environ['OMP_NUM_THREADS'], file=sys.stderr)\n"
    )
    overrides = [text.replace("plugins=[", "plugins=['tell.py',") for text in small]
    more = ("steps=1", "--run", "run", "--nice", "2", "--threads", "3")
    assert f"nice {os.nice(0) + 2} 3" in ictcli.done("train", "chain", *overrides, *more).err
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["engine"]["threads"] == 3
    again = ictcli.run("resume", "run", "--nice", "20")
    assert again.code == 2 and "--nice" in again.err


def test_the_first_steps_of_the_quickstart_make_the_model_better(
    ictcli: Processes, tmp_path: Path
) -> None:
    short = ("steps=6", "eval.problems=32", "eval.n=2", "eval.k=[1]", "eval.temperatures=[0]")
    summary = ictcli.json("train", "quickstart", *short)
    for score in ("pass@1", "greedy"):
        before, after = (summary[when][score]["value"] for when in ("before", "after"))
        assert before <= 0.45 and after > before + 0.1, (score, before, after)
    (evaluated,) = tmp_path.glob("runs/*/eval")
    found = [json.loads((evaluated / f"{when}.json").read_text()) for when in ("before", "after")]
    for share, pair in summary["unanswered"].items():
        assert share == "sentence" or pair == [each[share] for each in found]
