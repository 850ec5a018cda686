"""Prints the results of a run, of evaluations or of judged answers, and the progress bar."""

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ictcli.console.lines import narrate, narrate_paragraph, output
from ictcli.console.plain import progress_lines
from ictcli.console.runs import ending
from ictcli.console.table import Screen, print_json, print_table
from ictcli.evaluation.passk import Difference
from ictcli.evaluation.record import Result
from ictcli.evaluation.report import by_temperature, caption, differences, reached
from ictcli.recipe import Recipe
from ictcli.rewards.explanations import SOURCES, Explanation, Reading
from ictcli.rewards.files import Response, as_columns
from ictcli.rewards.verifiers import STATUSES, Verdict
from ictcli.runs import checkpoints
from ictcli.runs.read import read_environment, read_lines
from ictcli.runs.records import StepMetrics, Summary
from ictcli.runs.show import next_commands
from ictcli.tables import text_table
from ictcli.tables.numbers import counted, listed, percent, shown_share
from ictcli.text import command, duration, figure, middle_cut, one_line
from ictcli.tracking import where_to_look
from ictcli.train.diagnosis import TRIAL, symptom
from ictcli.train.health import decline


@contextlib.contextmanager
def eval_progress() -> Generator[Callable[[str], Callable[[int, int], None]]]:
    """Show the progress of evaluations: a bar with the time left, or lines if stderr is not a
    terminal. Yields a function of a benchmark's name that returns a function to update its
    progress, of (samples done, samples in total)."""
    err = Screen(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} samples"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
        transient=True,
    )

    def of(name: str) -> Callable[[int, int], None]:
        task, lines = bar.add_task(one_line(name), total=None), progress_lines(narrate)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if not err.is_terminal:
                lines(f"evaluating {name}", done, total)

        return update

    with bar:
        yield of


def evaluations(results: Sequence[Result], folder: Path, *, as_json: bool) -> None:
    """Print evaluations as JSON, or as tables that fit the terminal."""
    if as_json:
        print_json([result.model_dump(mode="json") for result in results])
        return
    tables = [reached(results), by_temperature(results), differences(results)]
    for number, shown in enumerate(filter(None, tables)):
        if number:
            output("")
        print_table(shown, shown.turned())
    narrate_paragraph(caption(results))
    narrate(f"samples: {folder}")


def report(summary: Summary, folder: Path, recipe: Recipe, *, as_json: bool) -> None:
    """Print the results before and after training, the path of the model, and next commands."""
    if as_json:
        print_json(summary.to_json())
        return
    print_table(ending(summary))
    redrawn = (summary.rollouts_sampled or 0) - summary.steps * recipe.prompts * recipe.group
    replaced = f" ({redrawn:,} of the rollouts for prompts that replaced others)" * (redrawn > 0)
    parts = [summary.sft.words] if summary.sft else []
    parts += [counted(summary.steps, "step")] if summary.steps else []
    sampled = f"; {summary.tokens_sampled:,} tokens sampled{replaced}, "
    sampled += f"{shown_share(summary.tokens_kept_share)} of them trained"
    of_cpu = "" if summary.cpu_s is None else f", {duration(summary.cpu_s)} of CPU time"
    left_out = read_environment(folder).data.left_out
    lost = sum(left_out.get(f"heldout_{why}", 0) for why in ("unread", "too_long"))
    fewer = summary.problems < recipe.eval.problems and lost
    why = f" ({lost:,} more were left out: too long or unreadable)" if fewer else ""
    narrate_paragraph(
        f"{counted(summary.problems, 'held-out problem')}{why}, "
        f"{counted(summary.samples_per_problem, 'sample')} each, 95 % intervals over problems; "
        "changes in points, * if significant. "
        f"{listed([*parts, 'the evaluations'])} in {duration(summary.wall_s)}{of_cpu}"
        f"{sampled * bool(summary.steps)}."
    )
    if summary.unlearned and summary.steps < TRIAL:
        narrate_paragraph(f"{summary.unlearned.sentence} Next: {summary.unlearned.hint}")
    elif not summary.unlearned and (verdict := verdict_line(summary)):
        narrate_paragraph(verdict)
    earlier = _declined(summary, folder, recipe)
    narrate("")
    model = Path(summary.model)
    step = "" if earlier is None else f" (of step {summary.steps})"
    narrate(f"{model.name}: {model}{step}")
    if model.name == "adapter":
        narrate(f"whole: {command('export', folder, merge=True)}")
    if (best := summary.best) and checkpoints.best_of(folder) in checkpoints.complete(folder):
        reached = f"step {best.step} by {best.metric} ({figure(best.value)})"
        narrate(f"best:  {reached}: {command('export', folder, checkpoint='best')}")
    for name in recipe.log:
        if (folder / name).exists():  # the tracker was started
            narrate(f"log:   {where_to_look(name, folder)}")
    narrate(*(f"next:  {line}" for line in next_commands(folder, "finished", earlier)))


def _declined(summary: Summary, folder: Path, recipe: Recipe) -> int | None:
    """If the run ended far below its best, say so and return the step of the earliest checkpoint,
    if it is earlier than the last step. Otherwise print how many samples have no answer."""
    steps = read_lines(folder / "metrics.jsonl", StepMetrics)
    if not (fell := decline([step.correct or 0.0 for step in steps])):
        if summary.unanswered and summary.unanswered.sentence and not summary.unlearned:
            narrate_paragraph(summary.unanswered.sentence)
        return None
    first = min(map(checkpoints.step_of, checkpoints.complete(folder)), default=summary.steps)
    is_earlier = first < summary.steps
    best, now = map(shown_share, fell)
    ended = symptom("decline", recipe, best=best, now=now, when="at the end")
    earlier = f"; the commands below use the weights of step {first}" * is_earlier
    narrate_paragraph(f"{ended.sentence}: {ended.next}{earlier}.")
    return first if is_earlier else None


def verdict_line(summary: Summary) -> str:
    """Return a sentence on which metrics changed significantly; empty if that is unknown."""
    if not (summary.sft and summary.sft.reached):
        text = f"{_changed(summary.change)}." if summary.change else ""
        return text.replace("no", "No", 1) if text.startswith("no ") else text
    by = {"Supervised steps": summary.sft.change, "RL": summary.sft.change_after}
    return "; ".join(f"{name}: {_changed(change)}" for name, change in by.items()) + "."


def _changed(change: Mapping[str, Difference]) -> str:
    """Return a clause on which metrics changed significantly, by how much, and which did not."""
    parts = [
        f"{name} {'fell' if gain.value < 0 else 'rose'} by {percent(abs(gain.value))} points"
        for name, gain in change.items()
        if gain.differs
    ]
    if same := [name for name, gain in change.items() if not gain.differs]:
        parts.append(f"no significant change in {listed(same)}")
    worse = any(gain.differs and gain.value < 0 for gain in change.values())
    return ", ".join(parts) + " (a smaller lr may help)" * worse


SHOWN = 5
LONGEST = 200


def graded(
    responses: Sequence[Response],
    verdicts: Sequence[Verdict | Explanation],
    unread: Sequence[int],
    *,
    as_json: bool,
) -> None:
    """Print explanations, if any, then the counts by status and the most frequent reasons; or all
    verdicts as JSON. `unread` are the numbers of lines whose gold cannot be read."""
    if unread:
        lines = ", ".join(map(str, unread[:SHOWN])) + (", ..." if len(unread) > SHOWN else "")
        narrate(
            f"note: {counted(len(unread), 'gold')} cannot be read (line {lines}): "
            "only an identical answer counts as correct"
        )
    rows = list(zip(responses, verdicts, strict=True))
    if as_json:
        print_json([{"line": row.number, **as_columns(verdict)} for row, verdict in rows])
        return
    for row, verdict in rows:
        if isinstance(verdict, Explanation):
            explain(f"line {row.number}", verdict)
    plain = [v.verdict if isinstance(v, Explanation) else v for v in verdicts]
    counts = Counter(verdict.status for verdict in plain)
    shares = {status: shown_share(counts[status] / len(plain)) for status in STATUSES}
    print_table(
        text_table([{"": s, "responses": f"{counts[s]:,}", "share": shares[s]} for s in STATUSES])
    )
    reasons = Counter(verdict.reason for verdict in plain if verdict.reason)
    for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]:
        narrate(f"{n:,} x {reason}")


def explain(subject: str, explanation: Explanation) -> None:
    """Print a verdict and, on two more lines, how the answer and the gold were read."""
    verdict = explanation.verdict
    output(
        ", ".join(filter(None, (f"{subject}: {verdict.status}", verdict.reason))),
        f"  answer  {_side(explanation.answer)} ({SOURCES[explanation.source]})",
        f"  gold    {_side(explanation.gold)}",
    )


def _side(reading: Reading) -> str:
    meaning = f", read as {reading.meaning}" if reading.meaning else ""
    return middle_cut(reading.text, LONGEST) + meaning if reading.text else "none"
