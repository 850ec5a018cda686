"""Trackers: what they hold of a stopped run, and what they cannot do to it."""

import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_runs import evaluation

from ictcli.errors import install
from ictcli.files import write_json
from ictcli.recipe import load_recipe
from ictcli.recipe.data import Example
from ictcli.runs import Run
from ictcli.runs.read import cut_lines
from ictcli.runs.records import SftMetrics, StepMetrics, StepTimings
from ictcli.tracking import About, Tracker, tracked
from tests.cases import first


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A module `wandb` of our own, before any other; `FAKE_WANDB` says what goes wrong."""
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "wandb.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path / "fakes")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setenv("FAKE_WANDB", "")
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def sitting(
    folder: Path, log: str, of: range, *, sft: range | None = None, after: bool = False
) -> list[str]:
    """One sitting of a run of 6 steps, perhaps with 3 supervised ones before; gives the warnings.
    What stands in metrics.jsonl from its own first on is cut, as a resumed run does it."""
    more = [] if sft is None else ["sft.steps=3", f"sft.data={folder}.jsonl"]
    recipe = load_recipe("chain", [f"log={json.dumps(log.split())}", "steps=6", *more])
    run = Run.open(folder)[0] if folder.exists() else Run.create(folder, recipe)
    warnings: list[str] = []
    with run:
        for name in ("metrics.jsonl", "timings.jsonl"):
            cut_lines(folder / name, of.start - 1)
        run.write("eval/before.json", EVALUATION)
        with tracked(run, recipe, warnings.append) as start:
            start(of.start - 1 + (sft.start - 1 if sft is not None else 0))
            for step in sft or ():
                run.append(SftMetrics(step=step, loss=1.0 / step, tokens=5, grad_norm=1, lr=1))
            if sft is not None and of.start == 1 and of:
                run.write("eval/step-000000.json", EVALUATION)
            for step in of:
                metrics = StepMetrics(step=step, reward=step / 8, loss=None)
                if step == 5:
                    run.write("eval/step-000005.json", EVALUATION)
                run.append(metrics.model_copy(update={"text": "a model's"}))
                run.append(StepTimings(step=step, sample_s=step * 2.0))
            if after:
                run.write("eval/after.json", EVALUATION)
    return warnings


def shown(folder: Path) -> Iterator[tuple[str, int, float]]:
    """What TensorBoard shows of a folder: scalars of its files in order, less those that a later
    file's beginning purges. Records are length, checksum, data, checksum."""
    from tensorboardX.proto import event_pb2  # pyright: ignore[reportMissingImports]

    found: list[tuple[str, int, float]] = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event: Any = cast(Any, event_pb2).Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.session_log.status == 1:  # START
                found = [one for one in found if one[1] < event.step]
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.append((value.tag, event.step, value.simple_value))
    yield from found


@pytest.mark.parametrize("stopped", first([2, 3]))
def test_tensorboard_shows_every_step_of_a_killed_run_once(tmp_path: Path, stopped: int) -> None:
    """Stopped after the second of three supervised steps, or before the evaluation that follows
    them; then killed after step 5, and resumed from the checkpoint of step 3."""
    run, none = tmp_path / "run", range(4, 4)
    assert sitting(run, "tensorboard", range(1, 1), sft=range(1, stopped + 1)) == []
    assert sitting(run, "tensorboard", range(1, 6), sft=range(stopped + 1, 4)) == []
    assert sitting(run, "tensorboard", range(4, 7), sft=none, after=True) == []
    expected = [("train/reward", 3 + step, step / 8) for step in range(1, 7)]
    expected += [("time/sample_s", 3 + step, step * 2.0) for step in range(1, 7)]
    names = {"eval/pass_at_1": 0.5, "eval/pass_at_1_low": 0.25, "eval/pass_at_1_high": 0.75}
    names |= {f"eval/{name}": 0.0 for name in ("truncated", "unparsed", "timed_out")}
    names["eval/seconds"] = 3.0
    expected += [(name, step, value) for name, value in names.items() for step in (0, 3, 8, 9)]
    found = list(shown(run / "tensorboard"))
    assert Counter(one for one in found if not one[0].startswith("sft/")) == Counter(expected)
    assert [step for name, step, _ in found if name == "sft/loss"] == [1, 2, 3]


def test_a_resumed_run_is_one_run_for_wandb(tmp_path: Path, fake: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    assert sitting(run, "wandb", range(1, 4)) == []
    assert sitting(run, "wandb", range(4, 7), after=True) == []
    lines = [json.loads(line) for line in (run / "fake.jsonl").read_text().splitlines()]
    opened = [line for line in lines if "id" in line]
    assert len(opened) == 2 and opened[0] == opened[1]
    assert (opened[0]["mode"], opened[0]["resume"]) == ("offline", "allow")  # there is no key
    logged = [line for line in lines if "step" in line]
    rewards = [line["train/reward"] for line in logged if "train/reward" in line]
    assert rewards == [step / 8 for step in range(1, 7)]
    assert [line["step"] for line in logged if "eval/pass@1" in line] == [0, 5, 6]
    assert all(isinstance(value, int | float) for line in logged for value in line.values())


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("log", "ValueError: not this step"),
        ("import", f"no module of that name; {install('wandb')}"),
        ("finish", "OSError: no answer"),
    ],
)
def test_a_tracker_that_fails_costs_a_warning(
    tmp_path: Path, fake: pytest.MonkeyPatch, kind: str, reason: str
) -> None:
    fake.setenv("FAKE_WANDB", kind)
    (warning,) = sitting(tmp_path / "run", "wandb", range(1, 7), after=True)
    assert warning.startswith(f"wandb does not log this run ({reason})")


def test_a_tracker_is_told_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither examples nor places on this machine nor the command, of the whole that is sent."""
    sent: list[About] = []
    library = SimpleNamespace(open_tracker=lambda about: sent.append(about) or Tracker(None))
    monkeypatch.setitem(sys.modules, "ictcli.tracking.wandb", library)
    recipe = load_recipe("chain", ['log=["wandb"]', f"model={tmp_path}/SECRET/base"])
    example = Example(prompt="SECRET", response="SECRET")
    prompt = recipe.prompt.model_copy(update={"examples": (example, example)})
    recipe = recipe.model_copy(update={"prompt": prompt, "data": f"{tmp_path}/SECRET/rows.csv"})
    with Run.create(tmp_path / "run", recipe) as run:
        data = {"file": "rows.csv", "examples": [example.model_dump()], "left_out": {"held_out": 1}}
        model = {"name": f"{tmp_path}/SECRET/base", "sha256": "ab"}
        about = {"command": ["SECRET"], "data": data, "model": model, "python": "3.13"}
        write_json(run.folder / "environment.json", about)
        with tracked(run, recipe, print) as start:
            start(0)
    (told,) = sent
    assert "SECRET" not in str((told.recipe, told.environment))
    assert told.recipe["model"] == "base" and told.recipe["data"] == "rows.csv"
    assert told.recipe["prompt"]["examples"]["count"] == 2
    assert told.recipe["lr"] == recipe.lr
    assert told.environment == {
        "data": {"file": "rows.csv", "left_out.held_out": 1},
        "model": {"name": "base", "sha256": "ab"},
        "python": "3.13",
    }


FAKE = """
import json, os
import os.path as path
kind = os.environ["FAKE_WANDB"]
if kind == "import":
    raise ImportError("no module of that name")
print("a library that prints")

class Settings:
    def __init__(self, **given):
        assert given["console"] == "off" and given["disable_git"] and given["x_disable_meta"]

class init:
    def __init__(self, **given):
        self.out = open(path.join(given["dir"], "fake.jsonl"), "a")
        self.write({"id": given["id"], "mode": given["mode"], "resume": given["resume"]})
    def write(self, data):
        self.out.write(json.dumps(data) + "\\n")
        self.out.flush()
    def log(self, values, step):
        if kind == "log" and step == 2:
            raise ValueError("not this step")
        self.write({"step": step, **values})
    def finish(self):
        if kind == "finish":
            raise OSError("no answer")
"""


EVALUATION = evaluation({"pass@1": 0.5, "maj@4": None})
