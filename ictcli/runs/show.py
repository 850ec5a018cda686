"""The details of one run: recipe, environment, progress, results, disk usage and altered files."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import model_serializer

from ictcli.engine.models import exported
from ictcli.evaluation.record import Evaluation
from ictcli.recipe import is_of_run
from ictcli.recipe.metrics import shown_in
from ictcli.runs import checkpoints, manifest
from ictcli.runs.checkpoints import DAMAGE
from ictcli.runs.list import Entry, State, entry, evaluations
from ictcli.runs.read import read_environment, read_lines, read_record, size
from ictcli.runs.records import (
    DataRecord,
    Environment,
    Manifest,
    RecipeRecord,
    RunRecord,
    StepMetrics,
    StepTimings,
    Summary,
)
from ictcli.text import command

EVALUATED = {"benchmark", "problems", "n", "truncated", "unparsed", "timed_out", "seconds"}


class Curve(RunRecord):
    """A metric over the steps of a run."""

    first: float
    last_tenth: float
    least: float
    most: float
    values: list[float]


class EvaluationFile(RunRecord):
    """A file eval/LABEL.json of a run."""

    label: str
    evaluation: Evaluation | None
    """None if the file is damaged."""

    @model_serializer
    def _json(self) -> dict[str, Any]:
        if self.evaluation is None:
            return {"label": self.label, "damaged": True}
        fields = self.evaluation.model_dump(include=EVALUATED, exclude_unset=True)
        scores = {name: score for name, score in self.evaluation.scores.items() if score}
        return {"label": self.label, **fields, **scores}


class CheckpointFolder(RunRecord):
    path: str
    step: int | None
    bytes: int
    whole: bool
    """Whether the checkpoint's state.json can be read."""


class Detail(Entry):
    """The details of a run, for `ictcli runs show`."""

    keys: RecipeRecord
    data: DataRecord
    environment: Environment
    """environment.json without `data`."""
    metrics: dict[str, Curve]
    seconds_per_step: float | None
    """Median of the seconds per step over all steps."""
    peak_bytes: int | None
    summary: Summary | None
    evaluations: list[EvaluationFile]
    checkpoints: list[CheckpointFolder]
    bytes: int
    """Size of the run folder."""
    next: list[str]


def detail(run: Path) -> Detail:
    """Return the details of a run, without files that are damaged."""
    row, environment = entry(run, "eval/*"), read_environment(run)
    timings = read_lines(run / "timings.jsonl", StepTimings)
    summary = read_record(run / "summary.json", Summary, strict=False)
    peaks = [line.peak_bytes for line in timings] + [summary.peak_bytes if summary else None]
    seconds = [line.seconds for line in timings if line.seconds is not None]
    return Detail(
        **dict(row),
        keys=read_record(run / "recipe.toml", RecipeRecord, strict=False) or RecipeRecord(),
        data=environment.data,
        environment=Environment(**environment.model_dump(exclude={"data"}, exclude_unset=True)),
        metrics=curves(read_lines(run / "metrics.jsonl", StepMetrics)),
        seconds_per_step=median(seconds) if seconds else None,
        peak_bytes=max(filter(None, peaks), default=None),
        summary=summary,
        evaluations=[
            EvaluationFile(label=path.stem, evaluation=read_record(path, Evaluation, strict=False))
            for path in evaluations(run)
        ],
        checkpoints=[_checkpoint(path) for path in sorted((run / "checkpoints").glob("step-*"))],
        bytes=size(run),
        next=next_commands(run, row.state),
    )


def curves(metrics: Sequence[StepMetrics]) -> dict[str, Curve]:
    """Return the curves of the metrics and rewards that `runs show` prints."""
    result: dict[str, Curve] = {}
    rewards = dict.fromkeys(name for line in metrics for name in line.rewards)
    for name in (*shown_in("show"), *rewards):
        values = [value for line in metrics if (value := line.value(name)) is not None]
        if values:
            last = values[-max(1, len(values) // 10) :]
            result[name] = Curve(
                first=values[0],
                last_tenth=sum(last) / len(last),
                least=min(values),
                most=max(values),
                values=values,
            )
    return result


def _checkpoint(path: Path) -> CheckpointFolder:
    state = read_record(path / "state.json", StepTimings, strict=False)
    step = state.step if state else None
    return CheckpointFolder(path=str(path), step=step, bytes=size(path), whole=state is not None)


def next_commands(run: Path, state: State, checkpoint: int | None = None) -> list[str]:
    """Return commands to use next on a run in this state, or on the weights of its checkpoint."""
    commands = [command("resume", run)] if state in ("stopped", "failed") else []
    if state == "finished" and (evaluation := evaluation_command(run, checkpoint)):
        commands.append(evaluation)
    if any((run / "rollouts").glob("step-*.safetensors")):
        commands.append(command("inspect", run))
    if state == "finished":
        commands.append(f'{command("generate", run, checkpoint=checkpoint)} "PROMPT"')
        commands.append(command("export", run, checkpoint=checkpoint))
    return commands


def evaluation_command(run: Path, checkpoint: int | None = None) -> str | None:
    """Return the command that compares a finished run with its base model (if that is a run, with
    its weights, prompted like `run`); None if the recipe names no model."""
    recipe = read_record(run / "recipe.toml", RecipeRecord, strict=False) or RecipeRecord()
    if not recipe.model:
        return None
    base = Path(recipe.model)
    weights = exported(base) if is_of_run(base / "recipe.toml") else None
    return command("eval", weights or recipe.model, run, checkpoint=checkpoint)


class RunCheck(RunRecord):
    """The result of comparing a run's files with their checksums."""

    run: str
    files: int
    """Number of files with a checksum, those of checkpoints included."""
    faults: dict[str, str]
    """What is wrong, by the name of the file or checkpoint."""


def check_run(run: Path) -> RunCheck:
    """Compare a run's files with their recorded checksums, which older versions of ictcli wrote for
    checkpoints only."""
    wrong = manifest.faults(run)
    folders = checkpoints.folders(run)
    for folder in folders:
        try:
            checkpoints.check(folder)
        except DAMAGE as error:
            wrong[folder.relative_to(run).as_posix()] = f"is damaged: {error}"
    paths = [folder / manifest.MANIFEST for folder in (run, *folders)]
    records = [read_record(path, Manifest, strict=False) for path in paths]
    files = sum(len(record.files) for record in records if record)
    return RunCheck(run=str(run), files=files, faults=wrong)
