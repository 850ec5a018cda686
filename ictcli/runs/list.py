"""Find a run by its path or its name in runs/, and list the runs below a folder."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ictcli.engine.models import typed_path
from ictcli.errors import UserError, nearest
from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation
from ictcli.files import check_inside
from ictcli.runs import manifest
from ictcli.runs.read import changed, in_use, last_record, read_lines, read_record
from ictcli.runs.records import (
    Failure,
    RecipeRecord,
    RunRecord,
    StepMetrics,
    StepTimings,
    Summary,
    passes_by_k,
)

RUNS = Path("runs")
"""Folder in which `ictcli train` and `ictcli compare` create runs."""
State = Literal["finished", "running", "stopped", "failed", "damaged"]
LEFT = ("metrics.jsonl", "checkpoints", "summary.json", "environment.json")
"""Files that show a folder to be a run even if recipe.toml is missing."""
DEPTH = 6
LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Upper limit for modification times of files, which may be out of range."""


class Entry(RunRecord):
    """A line of `ictcli runs ls`; unknown values are None or empty."""

    run: str
    state: State
    model: str
    task: str
    data_name: str
    """Name of the data set: a file's name or the task."""
    method: str
    seed: int | None
    step: int
    steps: int | None
    before: float | None
    """pass@1 before training, or pass@k for the smallest k that was evaluated."""
    after: float | None
    """The same score as `before`, after training or at the newest evaluation so far."""
    when: str
    """Time of the run's last write, in UTC."""
    seconds: float | None
    note: str


def find_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Yield the runs at and below a folder, by name; runs inside a run are left out."""
    if any(os.path.lexists(folder / name) for name in ("recipe.toml", *LEFT)):
        yield folder
        return
    try:
        with os.scandir(folder) as files:
            names = sorted(
                file.name
                for file in files
                if file.is_dir(follow_symlinks=False) and not file.name.startswith(".")
            )
    except OSError:
        return
    for name in names if depth else ():
        yield from find_runs(folder / name, depth - 1)


def find_run(name: Path) -> Path:
    """Return `find_folder(name)`. UserError also for a run that links to files outside it."""
    return _checked(find_folder(name))


def _checked(path: Path) -> Path:
    if any(find_runs(path, 0)):
        check_inside(path)
    return path


def find_folder(name: Path) -> Path:
    """Return the path `name` if it exists, else runs/`name`. UserError, which suggests the nearest
    name, if neither exists. Whether the folder is a run is not checked."""
    if path := existing(name):
        return path
    raise UserError(
        f"There is no run {name}, here or in {RUNS}/{_nearest(str(name))}.",
        "ictcli runs ls lists the runs",
    )


def find_model(name: str) -> str:
    """Return the path of a model or run, as `find_folder` does; a hub id or `builtin:NAME` is
    returned unchanged. UserError if the name is only similar to a run's."""
    if ":" in name or typed_path(name).exists():
        _checked(Path(name))
        return name
    if path := existing(Path(name)):
        return str(_checked(path))
    group, slash, _ = name.partition("/")
    near = "" if slash and not (RUNS / group).is_dir() else _nearest(name)
    if near:
        raise UserError(
            f"There is no model or run {name}, here or in {RUNS}/{near}.",
            "ictcli runs ls lists the runs; a model of the hub is OWNER/NAME",
        )
    return name


def existing(name: Path) -> Path | None:
    """Return the path `name` if it exists, else runs/`name` if that exists, else None."""
    return next((path for path in (name, RUNS / name) if path.exists()), None)


def shown(run: Path) -> str:
    """Return the shortest name by which `find_run` finds a run."""
    if not run.is_relative_to(RUNS):
        return str(run)
    name = run.relative_to(RUNS)
    return str(run if name.exists() else name)


def _nearest(name: str) -> str:
    names = [shown(run) for run in find_runs(RUNS)]
    return nearest(name.removeprefix(f"{RUNS}/"), names)


def list_runs(folder: Path) -> list[Entry]:
    """Return the entries of all runs at and below a folder, the most recently written last."""
    return sorted((entry(run) for run in find_runs(folder)), key=lambda run: (run.when, run.run))


def entry(run: Path, *more: str) -> Entry:
    """Return the entry of a run, read from its folder. The note lists files with a wrong checksum
    (results, and files that match `more`), and says why a damaged run cannot be read."""
    try:
        check_inside(run)
        return _entry(run, *more)
    except UserError as error:
        return _unread(run, error.message)
    except Exception as error:  # one bad folder must not hide the other runs
        return _unread(run, f"cannot be read: {error!r}")


def _entry(run: Path, *more: str) -> Entry:
    recipe = read_record(run / "recipe.toml", RecipeRecord, strict=False)
    summary = read_record(run / "summary.json", Summary, strict=False)
    last = last_record(run / "metrics.jsonl", StepMetrics)
    state, note = _state(run, recipe, summary)
    notes = [note] * bool(note)
    if summary and summary.unlearned:
        notes.append("nothing was learned")
    if state != "running":  # else its files are still being written
        altered = manifest.altered(run, *manifest.RESULTS, "eval/*.json", *more)
        notes += [f"{name} {why}" for name, why in altered.items()]
    before, after = _scores(run, summary)
    timings = () if summary else read_lines(run / "timings.jsonl", StepTimings)
    steps = [(line.sample_s or 0.0) + (line.update_s or 0.0) for line in timings]
    files = (run / name for name in ("summary.json", "metrics.jsonl", "recipe.toml"))
    modified = changed(*files) or changed(run)
    return Entry(
        run=str(run),
        state=state,
        model=recipe.model if recipe else "",
        task=recipe.task if recipe else "",
        data_name=recipe.data_name if recipe else "",
        method=recipe.label if recipe else "",
        seed=recipe.seed if recipe else None,
        step=summary.steps if summary else last.step if last else 0,
        steps=recipe.steps if recipe else None,
        before=before,
        after=after,
        when=_when(modified),
        seconds=summary.wall_s if summary else sum(steps) if steps else None,
        note="; ".join(notes),
    )


def _unread(run: Path, why: str) -> Entry:
    unknown = dict.fromkeys(("seed", "steps", "before", "after", "seconds"))
    empty = dict.fromkeys(("model", "task", "data_name", "method"), "")
    when = _when(changed(run))
    values = {"run": str(run), "state": "damaged", "step": 0, "when": when, "note": why}
    return Entry.model_validate({**unknown, **empty, **values})


def _when(modified: float | None) -> str:
    seconds = min(max(modified or 0, 0), LATEST)
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _state(run: Path, recipe: RecipeRecord | None, summary: Summary | None) -> tuple[State, str]:
    if in_use(run):
        return "running", ""
    if recipe is None:
        exists = (run / "recipe.toml").exists()
        return "damaged", f"recipe.toml {'cannot be read' if exists else 'is missing'}"
    if summary is None and (run / "summary.json").exists():
        return "damaged", "summary.json cannot be read"
    if summary is not None:
        return "finished", ""
    failure = read_record(run / "failure.json", Failure, strict=False)
    if failure:
        return "failed", failure.error
    return "stopped", "" if (run / "environment.json").exists() else "training has not started"


def _scores(run: Path, summary: Summary | None) -> tuple[float | None, float | None]:
    if summary:
        return _least(summary.before), _least(summary.after)
    later = [path for path in evaluations(run) if path.stem != "before"]
    return _evaluated(run / "eval" / "before.json"), _evaluated(later[-1]) if later else None


def _evaluated(path: Path) -> float | None:
    evaluation = read_record(path, Evaluation, strict=False)
    return _least(evaluation.passes) if evaluation else None


def _least(scores: Mapping[str, Interval]) -> float | None:
    passes = passes_by_k(scores)
    return passes[min(passes)].value if passes else None


def evaluations(run: Path) -> Sequence[Path]:
    """Return the files of a run's evaluations, oldest first."""
    order = {"before": "0", "after": "2"}
    return sorted(
        (run / "eval").glob("*.json"), key=lambda path: order.get(path.stem, f"1{path.stem}")
    )
