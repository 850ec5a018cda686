"""Laws of supervised steps: what they train on, what they minimise, and that kills lose nothing."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import observing
import pytest
from observing import Make
from written import write

from ictcli.console.results import verdict_line
from ictcli.console.runs import ending
from ictcli.errors import InterruptedRunError, UserError
from ictcli.evaluation.passk import Difference
from ictcli.runs import Run
from ictcli.runs.records import Environment, SftMetrics, Summary
from ictcli.tasks.sft import given_rollouts
from ictcli.tasks.unread import fitted_examples
from ictcli.train.finish import extend

EXAMPLES = [("1+2+3=", "3+3;6#"), ("2+2+4=", "4+4;8#"), ("5-1-1=", "4-1;3#"), ("3*2+1=", "6+1;7#")]


@pytest.fixture(autouse=True)
def _few_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictcli.tasks.prepare.GENERATED", 8)  # it takes half a second to make all


def written(folder: Path, rows: Sequence[tuple[str, str]] = EXAMPLES) -> str:
    found = [{"prompt": prompt, "completion": text} for prompt, text in rows]
    return f"sft.data={write(folder, found)}"


class KilledError(Exception):
    """What a kill is to a process that goes on."""


def go(
    make: Make, folder: Path, *overrides: str, stop: int | None = None, kill: int | None = None
) -> Summary:
    """Interrupted or killed after so many supervised steps."""
    made: list[SftMetrics] = []

    class Supervised(observing.Notes):
        def supervised(self, metrics: SftMetrics) -> None:
            made.append(metrics)
            if len(made) == kill:
                raise KilledError

        def interrupted(self) -> bool:
            return len(made) == stop

    settings = ("method=grpo", "lr=0.003", "sft.lr=0.003", "eval.n=4", *overrides)
    return observing.go(make(*settings), folder, Supervised())


def same(a: Path, b: Path, *names: str) -> bool:
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def test_the_loss_is_the_mean_of_minus_log_pi_over_responses(make: Make, tmp_path: Path) -> None:
    given = written(tmp_path)
    _, engine, task = make(given, "sft.batch=4", "eval.problems=1")
    rollouts = given_rollouts(engine, task.sft, task.domain, task.prompt)
    texts = [
        engine.tokenizer.decode(row[:n])
        for row, n in zip(rollouts.tokens, rollouts.lengths, strict=True)
    ]
    assert texts == [text for _, text in EXAMPLES]  # "#" ends a response of this model
    assert [engine.tokenizer.decode(ids) for ids in rollouts.prompts] == [p for p, _ in EXAMPLES]
    logp = engine.score(rollouts, ["logp"])["logp"].astype(np.float64)
    go(make, tmp_path / "run", given, "sft.batch=4", "sft.steps=1", "steps=0")
    line = json.loads((tmp_path / "run" / "sft.jsonl").read_text())
    assert line["loss"] == pytest.approx(-logp[rollouts.valid].mean(), rel=1e-5)
    assert line["tokens"] == rollouts.lengths.sum()


def test_a_run_stopped_or_killed_amid_them_is_the_whole_one(make: Make, tmp_path: Path) -> None:
    settings = (written(tmp_path), "sft.steps=4", "sft.batch=3", "steps=1", "checkpoint.every=2")
    whole = go(make, tmp_path / "whole", *settings)
    with pytest.raises(InterruptedRunError, match="supervised step 1 of 4"):
        go(make, tmp_path / "cut", *settings, stop=1)
    with pytest.raises(KilledError):  # two steps later, of which none is saved
        go(make, tmp_path / "cut", *settings, kill=2)
    resumed = go(make, tmp_path / "cut", *settings)
    names = ("metrics.jsonl", "sft.jsonl", "checkpoints/step-000001/weights.safetensors")
    assert same(tmp_path / "cut", tmp_path / "whole", *names)
    assert whole.sft and whole.sft == resumed.sft and whole.sft.steps == 4
    assert whole.sft.last_loss < whole.sft.first_loss
    records = (tmp_path / "whole" / "eval").glob("*.json")
    evaluated = sum(json.loads(path.read_text())["seconds"] for path in records)
    assert whole.wall_s >= evaluated + (whole.train_s or 0) - 0.1 and whole.cpu_s  # all it took
    heads = ["", "before", "after supervised", "after RL", "by supervised", "by RL"]
    assert [column.head for column in ending(whole).columns] == heads
    assert "greedy" in whole.change
    for name, change in whole.change.items():
        parts = whole.sft.change[name].value, whole.sft.change_after[name].value
        assert sum(parts) == pytest.approx(change.value)


def test_each_figure_that_changed_significantly_is_said(make: Make, tmp_path: Path) -> None:
    same, more = Difference(0.0, -0.1, 0.1, False), Difference(0.175, 0.019, 0.313, True)
    summary = go(make, tmp_path / "run", written(tmp_path), "sft.steps=1", "steps=0")
    change = {"pass@1": same, "greedy": more, "pass@4": same}
    said = verdict_line(summary.model_copy(update={"change": change}))
    assert said == "greedy rose by 17.5 points, no significant change in pass@1 and pass@4."
    assert verdict_line(summary.model_copy(update={"change": {"pass@1": same}}))[:3] == "No "


def test_training_then_is_that_of_the_model_they_made(make: Make, tmp_path: Path) -> None:
    """The optimiser begins anew, and the evaluation between is of that model, too."""
    given = (written(tmp_path), "sft.steps=3")
    go(make, tmp_path / "both", *given, "steps=2")
    alone = go(make, tmp_path / "alone", *given, "steps=0")
    assert alone.steps == 0 and not (tmp_path / "alone" / "metrics.jsonl").exists()
    go(make, tmp_path / "after", f"model={tmp_path / 'alone' / 'model'}", "steps=2")
    assert same(tmp_path / "both", tmp_path / "after", "metrics.jsonl")
    between, before = (
        json.loads((tmp_path / name).read_text())["pass@1"]
        for name in ("both/eval/step-000000.json", "after/eval/before.json")
    )
    assert between == before
    run, recipe = Run.open(tmp_path / "alone")
    with run:  # ictcli resume RUN steps=2
        run.write("environment.json", Environment())  # as `launch` does
        extend(run, recipe, 2)
    go(make, tmp_path / "alone", *given, "steps=2")
    assert same(tmp_path / "both", tmp_path / "alone", "metrics.jsonl", "sft.jsonl")


def test_evaluations_say_how_far_they_are_and_warn_of_nothing_that_they_shall_mend(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictcli.evaluation.evaluate.UNREAD", 0.0)  # each evaluation warns
    shares: dict[str, list[int]] = {}

    class Counting(observing.Notes):
        def evaluating(self, label: str, done: int, total: int) -> None:
            shares.setdefault(label, []).append(done)

    notes = Counting()
    made = make("method=grpo", "eval.n=4", written(tmp_path), "sft.steps=1", "steps=1")
    observing.go(made, tmp_path / "run", notes)
    assert len(notes.warnings) == 2 and list(shares) == ["before", "step-000000", "after"]
    for counts in shares.values():  # two problems, four samples and a greedy one
        assert counts == sorted(counts) and len(set(counts)) > 4 and counts[-1] == 10


def test_held_out_problems_are_left_out_and_what_does_not_fit(make: Make, tmp_path: Path) -> None:
    _, engine, task = make()
    held = task.heldout(1)[0].prompt
    many = EXAMPLES * 5
    long = ("1+1=", "2;" * 9 + "2#")
    _, engine, task = make(written(tmp_path, [*many, (held, "1#"), long, ("2+2=", " ")]))
    assert [example.prompt for example in task.sft] == [p for p, _ in (*many, long)]
    notes = " ".join(task.notes)
    assert "1 of 23 rows left out" in notes and "1 more are held-out problems" in notes
    fitted = fitted_examples(engine, task, 16)
    assert len(fitted.sft) == 20 and "1 of 21 examples of sft.data do not fit" in fitted.notes[-1]
    _, engine, task = make(written(tmp_path, [*EXAMPLES, long]))
    with pytest.raises(UserError, match="1 of 5 examples") as refused:
        fitted_examples(engine, task, 16)
    assert refused.value.hint.startswith("max_tokens=20")
    with pytest.raises(UserError, match="no response"):
        make(written(tmp_path, [*EXAMPLES, ("1+1=", "")]))


def test_no_step_at_all_is_refused(make: Make) -> None:
    with pytest.raises(UserError, match="steps = 0 trains nothing"):
        make("steps=0")
