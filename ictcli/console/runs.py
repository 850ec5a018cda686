"""Prints runs: a list, one run in full, or several runs side by side."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ictcli.console.lines import narrate, narrate_paragraph, output
from ictcli.console.live import CURVES, LEAST_SPAN, is_share, sparkline
from ictcli.console.table import print_json, print_table, stdout_width
from ictcli.evaluation.passk import Interval
from ictcli.files.origin import flat
from ictcli.recipe import Recipe
from ictcli.runs.diff import TOTALS, Result, RunDiff
from ictcli.runs.list import Entry, shown
from ictcli.runs.records import Environment, Summary
from ictcli.runs.show import Curve, Detail, EvaluationFile, RunCheck
from ictcli.tables import Column, Span, Table, score_columns, text_table
from ictcli.tables.numbers import ABSENT, counted, interval, points, shown_share, size_text
from ictcli.text import duration, figure, middle_cut, visible

STYLES = {"finished": "green", "running": "cyan", "stopped": "yellow", "failed": "red"}
DROPPED = ("task", "model", "took", "seed", "method", "when")
"""Columns that are left out of the list, in this order, if the terminal is too narrow."""
MAIN = ("lr", "prompts", "group", "temperature", "max_tokens")
"""Settings that are always shown, even with their default values."""
FORMATS = {"peak_bytes": size_text, "tokens_kept_share": shown_share}
"""Formats of results; all others are printed with six digits."""


def ago(when: str) -> str:
    """Return the time since a date as text, such as `5m ago`, `3h ago` or `12d ago`."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds()
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit} ago"
    return "now"


def value_text(value: Any) -> str:
    """Return a value of a recipe or environment as text; `-` for None."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, cast(Sequence[object], value)))
    text = f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
    return visible(text) or "-"


def glance(run: Entry) -> str:
    """Return a line with a run's name, state and step, and when it was last written to."""
    steps = "?" if run.steps is None else run.steps
    return f"{run.run}: {run.state}, step {run.step} of {steps}, {ago(run.when)}"


def print_list(runs: Sequence[Entry], folder: Path, *, as_json: bool) -> None:
    """Print a row per run, with as many columns as fit."""
    if as_json:
        print_json([run.to_json() for run in runs])
        return
    if not runs:
        narrate(f"No runs in {folder}; ictcli train quickstart makes one.")
        return
    rows = [_cells(run) for run in runs]
    kept = [[head for head in rows[0] if head not in DROPPED[:n]] for n in range(len(DROPPED) + 1)]
    tables = [text_table(rows).only(*heads) for heads in kept]
    print_table(*tables, style=lambda cell: STYLES.get(cell, ""))
    for run in runs:
        if run.note:
            narrate(f"{run.run}: {run.note}")
    states = [run.state for run in runs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    narrate_paragraph(
        f"{counted(len(runs), 'run')} in {folder}: {counts}; details: ictcli runs show RUN"
    )


def _cells(run: Entry) -> dict[str, str]:
    model = Path(run.model).name if run.model.startswith("/") else run.model
    gain = f"{shown_share(run.before)} → {shown_share(run.after)}"
    return {
        "run": visible(shown(Path(run.run))),
        "state": run.state,
        "step": f"{run.step}/{'?' if run.steps is None else run.steps}",
        "model": middle_cut(visible(model) or "-", 28),
        "task": middle_cut(visible(run.data_name) or "-", 24),
        "method": middle_cut(visible(run.method) or "-", 32),
        "seed": figure(run.seed, ""),
        "pass@1": "-" if run.before is run.after is None else gain,
        "took": "-" if run.seconds is None else duration(run.seconds),
        "when": ago(run.when),
    }


def print_run(run: Detail, *, as_json: bool) -> None:
    """Print one run, section by section."""
    if as_json:
        print_json(run.to_json())
        return
    output(glance(run))
    if run.note:
        output(f"  {run.note}")
    keys, defaults = flat(run.keys.to_json()), _defaults()
    method = [
        f"{name.removeprefix('method.')}={value_text(value)}"
        for name, value in keys.items()
        if name.startswith("method.") and name != "method.name"
    ]
    settings = [
        f"{name}={value_text(value)}"
        for name, value in keys.items()
        if name in MAIN or (name in defaults and value != defaults[name])
    ]
    recipe = {
        "model": run.model,
        "task": run.task if run.data_name == run.task else f"{run.data_name} ({run.task})",
        "method": " ".join([value_text(run.method), *method]),
        "seed": value_text(run.seed),
        "settings": "  ".join(settings),
    }
    _section("recipe", recipe)
    _section("data", {name: value_text(value) for name, value in flat(run.data.to_json()).items()})
    _section("environment", _environment(run.environment))
    _section("progress", _progress(run))
    if run.metrics:
        _curves(run.metrics)
    if run.evaluations:
        _evaluations(run.evaluations)
    if run.summary and run.summary.sft and run.summary.sft.reached:
        output("")
        print_table(ending(run.summary))
    sizes = {"all": size_text(run.bytes)}
    for folder in run.checkpoints:
        damage = "" if folder.whole else "  incomplete"
        sizes[Path(folder.path).name] = f"{size_text(folder.bytes)}{damage}"
    _section("disk", sizes)
    if run.next:
        narrate("", *(f"next:  {command}" for command in run.next))


def _defaults() -> dict[str, Any]:
    """Return the default of every key that has one, by its dotted name."""
    required: dict[str, Any] = {"model": "-", "task": "-", "method": {}, "steps": 0}
    data = Recipe.model_validate(required).model_dump(mode="json")
    return {name: value for name, value in flat(data).items() if name not in (*required, "seed")}


def _section(title: str, values: Mapping[str, str]) -> None:
    texts = {name: visible(value) for name, value in values.items() if value not in ("", "-")}
    if not texts:
        return
    output("")
    print_table(text_table([{title: f"  {name}", "": value} for name, value in texts.items()]))


def _environment(environment: Environment) -> dict[str, str]:
    engine = environment.engine
    versions = {"ictcli": environment.ictcli, "python": environment.python}
    parts = (engine.engine, engine.device, engine.dtype, engine.device_name)
    return {
        "engine": " ".join(part for part in parts if part),
        "parameters": figure(engine.parameters, ","),
        "machine": environment.platform or "",
        "versions": ", ".join(f"{name} {value}" for name, value in versions.items() if value),
        "libraries": ", ".join(f"{name} {value}" for name, value in environment.libraries.items()),
        "command": " ".join(["ictcli", *environment.command]) if environment.command else "",
        "extended": ", ".join(f"from {steps} steps" for steps in environment.extended_from),
    }


def _progress(run: Detail) -> dict[str, str]:
    pace, left = run.seconds_per_step, ""
    if pace is not None and run.state in ("running", "stopped") and run.steps:
        left = f"{duration(pace * max(0, run.steps - run.step))} without evaluations"
    return {
        "time": "" if run.seconds is None else duration(run.seconds),
        "a step": "" if pace is None else f"{pace:.2f} s (median)",
        "left": left,
        "peak memory": size_text(run.peak_bytes) if run.peak_bytes else "",
    }


def _curves(metrics: Mapping[str, Curve]) -> None:
    drawn = (stdout_width() or 120) >= 100
    rows: list[dict[str, str]] = []
    for name, curve in metrics.items():
        row = {"first": curve.first, "last tenth": curve.last_tenth}
        row |= {"least": curve.least, "most": curve.most}
        share = is_share(name, curve.values)
        least = LEAST_SPAN * (name in CURVES)
        line = sparkline(curve.values, 40, least, share=share)
        course = {"course": line} if drawn else {}
        form = shown_share if share and name != "reward" else "{:.4g}".format
        texts = {head: form(value) for head, value in row.items()}
        rows.append({"metric": visible(name), **texts, **course})
    output("")
    print_table(text_table(rows))


def _evaluations(files: Sequence[EvaluationFile]) -> None:
    names = dict.fromkeys(name for file in files if (e := file.evaluation) for name in e.scores)

    def problems(file: EvaluationFile) -> str:
        return f"{e.problems} x {e.n}" if (e := file.evaluation) else "damaged"

    def scores(file: EvaluationFile) -> Mapping[str, Interval | None]:
        return file.evaluation.scores if file.evaluation else {}

    label = Column[EvaluationFile]("evaluation", lambda file: file.label, str)
    columns = [label, Column("problems", problems, str), *score_columns(names, scores)]
    output("")
    print_table(Table(columns, files))


def ending(summary: Summary) -> Table:
    """Return a table with a row per metric: before training, after it, and the change. A run with
    supervised steps also has scores after them, and its changes by supervised steps and by RL."""

    def change(metric: str) -> Interval | Span:
        gain = summary.after[metric].value - summary.before[metric].value
        return summary.change.get(metric) or Span(gain, None, None)

    name = Column[str]("", lambda metric: metric, str)
    scores, changes = {"before": summary.before.get, "after": summary.after.get}, {"change": change}
    if summary.sft and summary.sft.reached:
        scores = {"before": summary.before.get, "after supervised": summary.sft.reached.get}
        scores |= {"after RL": summary.after.get}
        changes = {"by supervised": summary.sft.change.get, "by RL": summary.sft.change_after.get}
    columns = [Column(head, of, shown_share, bounded=True) for head, of in scores.items()]
    columns += [Column(head, of, points, bounded=True) for head, of in changes.items()]
    return Table([name, *columns], list(summary.after))


def print_diff(diff: RunDiff, *, as_json: bool) -> None:
    """Print tables of the differing settings and of the results, with a column per run."""
    if as_json:
        print_json(diff.to_json())
        return
    heads = [chr(ord("A") + i) if i < 26 else str(i) for i in range(len(diff.runs))]
    for head, run in zip(heads, diff.runs, strict=True):
        output(f"{head}: {run.run} ({run.state}, step {run.step})")
        if run.note:
            output(f"   {run.note}")
    parts = {"recipe": diff.recipe, "data": diff.data, "environment": diff.environment}
    for part, differing in parts.items():
        output("", *[f"{part}: no differences"] * (not differing))
        if differing:
            print_table(_by_run(part, heads, differing))
    names = ["problems", *dict.fromkeys(n for r in diff.results for n in r.scores), *TOTALS]
    names = [name for name in names if any(r.value(name) is not None for r in diff.results)]
    if names:
        results = {name: [_result(name, result) for result in diff.results] for name in names}
        output("")
        print_table(_by_run("after training", heads, results))


def _by_run(head: str, runs: Sequence[str], values: Mapping[str, Sequence[Any]]) -> Table:
    """Return a table with a row for each name and a column for each run."""

    def texts(row: Sequence[Any]) -> dict[str, str]:
        return dict(zip(runs, (middle_cut(value_text(value), 60) for value in row), strict=True))

    return text_table([{head: name, **texts(row)} for name, row in values.items()])


def _result(name: str, result: Result) -> str:
    """Return the value of a metric in a run's result as text."""
    value = result.value(name)
    if value is None:
        return ABSENT
    if isinstance(value, Interval):
        return f"{shown_share(value.value)} {interval(value.low, value.high, shown_share)}"
    return FORMATS.get(name, "{:,.6g}".format)(value)


def print_check(check: RunCheck, *, as_json: bool) -> None:
    """Print a line for each of a run's files that is damaged or missing, and the total counts."""
    if as_json:
        print_json(check.to_json())
        return
    for name, why in check.faults.items():
        output(f"{name} {why}")
    faults = counted(len(check.faults), "fault")
    narrate(f"{check.run}: {counted(check.files, 'file')} with a checksum, {faults}")


def print_old(
    old: Mapping[Path, int], busy: Sequence[Path], *, removed: bool, as_json: bool
) -> None:
    """Print a line with the size of each old checkpoint, and the total that was or would be freed.
    `busy` are runs that were skipped."""
    total = sum(old.values())
    if as_json:
        paths = {str(path): size for path, size in old.items()}
        print_json({"removed": removed, "bytes": total, "checkpoints": paths})
        return
    for path, size in old.items():
        output(f"{shown(path.parents[1])}: {path.name}, {size_text(size)}")
    for run in busy:
        narrate(f"note: {run} is being trained and is skipped")
    freed = f"{size_text(total)} {'freed' if removed else 'would be freed'}"
    number = counted(len(old), "old checkpoint")
    narrate(f"{number}, {freed}" if old else "There are no old checkpoints.")
