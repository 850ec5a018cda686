"""`ictcli train` from the outside: its streams, the folder it leaves, and that
a run trained on (`ictcli resume RUN steps=N`) ends as one that was as long at once."""

import json
import shutil
import signal
import tomllib
from pathlib import Path

from processes import TRAINED, Ended, Processes, Small, wait_until

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


def test_a_dry_run_s_recipe_reads_back(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    overrides = (*small, "method.scope=group", "eval.k=[1]", "seed=3", "adapter.rank=4")
    ended = ictcli.done("train", "chain", *overrides, "--dry-run")
    assert ended.err.startswith("note: adapter.rank has no effect")
    assert "\nplan: 100 steps of 4 prompts x 4 rollouts" in ended.err and "run fits: " in ended.err
    assert tomllib.loads(ended.out)["method"] == {"name": "ict", "scope": "group"}
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "copy.toml").write_text(ended.out)
    assert load_recipe(tmp_path / "copy.toml") == load_recipe("chain", overrides)


def test_threads_hold(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(
        "import os, sys\nprint('threads', os.environ['OMP_NUM_THREADS'], file=sys.stderr)\n"
    )
    overrides = [text.replace("plugins=[", "plugins=['tell.py',") for text in small]
    more = ("steps=1", "--run", "run", "--threads", "3")
    assert "threads 3" in ictcli.done("train", "chain", *overrides, *more).err
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["engine"]["threads"] == 3


def test_the_first_steps_of_the_quickstart_make_the_model_better(
    ictcli: Processes, tmp_path: Path
) -> None:
    short = ("steps=3", "eval.problems=24", "eval.n=2", "eval.k=[1]")
    summary = ictcli.json("train", "quickstart", *short)
    for score in ("pass@1", "greedy"):
        before, after = (summary[when][score]["value"] for when in ("before", "after"))
        assert before <= 0.45 and after > before + 0.1, (score, before, after)
    (evaluated,) = tmp_path.glob("runs/*/eval")
    found = [json.loads((evaluated / f"{when}.json").read_text()) for when in ("before", "after")]
    for share, pair in summary["unanswered"].items():
        assert share == "sentence" or pair == [each[share] for each in found]


def result(run: Path) -> dict[str, bytes]:
    names = [path.relative_to(run) for path in run.glob("model/*.safetensors")]
    return {str(name): (run / name).read_bytes() for name in (*names, Path("metrics.jsonl"))}


def test_a_finished_run_trained_on_equals_the_longer_run(
    ictcli: Processes, small: Small, training: tuple[Path, Ended], tmp_path: Path
) -> None:
    ictcli.done("train", "chain", *small, *TRAINED, "steps=4", "--run", "short")
    short, (long, whole) = tmp_path / "short", training
    half = result(short)
    after = json.loads((short / "summary.json").read_text())["after"]
    running = ictcli.start("resume", "short", "steps=6")
    wait_until(lambda: len(Run(short).metrics()) >= 5)
    running.send(signal.SIGKILL)
    running.wait()
    assert not (short / "summary.json").exists()
    ended = ictcli.done("resume", "short", "steps=6", "--json")
    assert "note:" not in ended.err, ended.err
    assert result(short) == result(long)
    assert json.loads(ended.out)["after"] == json.loads(whole.out)["after"]
    kept = short / "model-step-000004" / "model.safetensors"
    assert kept.read_bytes() == half["model/model.safetensors"]
    evaluated = json.loads((short / "eval" / "step-000004.json").read_text())
    assert {name: evaluated[name] for name in after} == after
    assert json.loads((short / "environment.json").read_text())["extended_from"] == [4]
    assert "from 4 steps" in ictcli.run("runs", "show", "short").out
    ictcli.done("runs", "check", "short")


def test_a_best_checkpoint_is_offered(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    offer = "ictcli export run --checkpoint best"
    best = ("steps=1", "checkpoint.best=reward", "--run", "run")
    assert offer in ictcli.done("train", "chain", *small, *best).err
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    ended = ictcli.done("resume", "run")
    assert "next: " in ended.err and offer not in ended.err, ended.err


def files_of(run: Path) -> dict[Path, bytes]:
    failure = run / "failure.json"
    return {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p != failure}


def test_what_cannot_be_trained_on_is_left_alone(
    ictcli: Processes, trained: Path, tmp_path: Path
) -> None:
    before = files_of(trained)
    for override, words in (
        ("lr=1", "A run keeps the recipe it began with: lr cannot change. resume only takes"),
        ("steps=5", "has 6 steps, and steps=5 is fewer. ictcli train"),
        ("steps=many", "steps = 'many'"),
        ("steps", "is not of the form key=value"),
    ):
        assert words in ictcli.refused("resume", trained, override, "--trust")
    ended = ictcli.done("resume", trained, "steps=6", "--trust")
    assert f"ictcli resume {trained} steps=N continues the training." in ended.err
    assert files_of(trained) == before
    for name, edit, words in (
        ("recipe.toml", ("\nlr = ", "\nlr = 1"), "was changed since"),
        ("metrics.jsonl", ("\n", ""), "lines are missing"),
        ("checkpoints/step-000006/state.json", ("{", "["), "can be read"),
    ):
        run = shutil.copytree(trained, tmp_path / Path(name).stem)
        shutil.rmtree(run / "checkpoints" / "step-000004")
        (run / name).write_text((run / name).read_text().replace(*edit, 1))
        before = files_of(run)
        ended = ictcli.run("resume", run, "steps=9", "--trust")
        assert ended.code in (1, 2) and words in ended.err
        assert files_of(run) == before
