"""One run in full: what was asked, where it ran, how far it came, what it reached and takes up."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.evaluation.record import Evaluation
from ictcli.runs.list import Entry, entry, evaluations
from ictcli.runs.read import Table, read_lines, read_record, size
from ictcli.runs.records import (
    Environment,
    RecipeRecord,
    StepMetrics,
    StepTimings,
)

CURVES = (
    *("reward", "entropy", "renyi2", "share_kept", "length", "truncated", "grad_norm", "kl"),
    *("clip_fraction", "groups_with_signal", "fork_recall", "probe_pearson"),
)
"""The metrics that are summed up, where a run has them."""
PARTS = ("model", "adapter", "checkpoints", "rollouts", "eval", "tensorboard", "wandb")
EVALUATED = {"benchmark", "problems", "n", "truncated", "unparsed", "timed_out", "seconds"}


def detail(run: Path) -> Table:
    """Everything `ictcli runs show` tells of a run, as data."""
    shown = entry(run)
    recipe = read_record(run / "recipe.toml", RecipeRecord, strict=False)
    environment = read_record(run / "environment.json", Environment, strict=False)
    where = environment.to_json() if environment else {}
    timings = read_lines(run / "timings.jsonl", StepTimings)
    seconds = sorted(line.seconds for line in timings if line.seconds is not None)
    return {
        **shown.json(),
        "keys": recipe.to_json() if recipe else {},
        "data": where.pop("data", {}),
        "environment": where,
        "metrics": curves(read_lines(run / "metrics.jsonl", StepMetrics)),
        "seconds_per_step": seconds[len(seconds) // 2] if seconds else None,
        "peak_bytes": max((line.peak_bytes or 0 for line in timings), default=0) or None,
        "evaluations": [_evaluation(path) for path in evaluations(run)],
        "checkpoints": _checkpoints(run),
        "bytes": _sizes(run),
        "next": next_commands(run, shown),
    }


def curves(metrics: Sequence[StepMetrics]) -> Table:
    """By name: the first value, the mean of the last tenth of the steps, least, most, and all."""
    result: Table = {}
    for name in CURVES:
        values = [value for line in metrics if (value := line.value(name)) is not None]
        if values:
            last = values[-max(1, len(values) // 10) :]
            result[name] = {
                "first": values[0],
                "last_tenth": sum(last) / len(last),
                "least": min(values),
                "most": max(values),
                "values": values,
            }
    return result


def _evaluation(path: Path) -> Table:
    evaluation = read_record(path, Evaluation, strict=False)
    if evaluation is None:
        return {"label": path.stem, "damaged": True}
    shown = evaluation.model_dump(include=EVALUATED, exclude_unset=True)
    scores = {name: score.json() for name, score in evaluation.scores.items() if score}
    return {"label": path.stem, **shown, **scores}


def _checkpoints(run: Path) -> list[Table]:
    checkpoints: list[Table] = []
    for path in sorted((run / "checkpoints").glob("step-*")):
        state = read_record(path / "state.json", StepTimings, strict=False)
        checkpoints.append(
            {
                "path": str(path),
                "step": state.step if state else None,
                "bytes": size(path),
                "whole": state is not None,
            }
        )
    return checkpoints


def _sizes(run: Path) -> dict[str, int]:
    parts = {name: size(run / name) for name in PARTS}
    total = size(run)
    known = {name: taken for name, taken in parts.items() if taken}
    return {**known, "other": total - sum(parts.values()), "total": total}


def next_commands(run: Path, one: Entry) -> list[str]:
    """What can be done with a run in its state."""
    where = shlex.quote(str(run))
    commands: dict[str, list[str]] = {
        "finished": [
            f"ictcli eval {where} --bench {shlex.quote(one.task)}" if one.task else "",
            f"ictcli export {where}",
        ],
        "stopped": [f"ictcli resume {where}"],
        "failed": [f"ictcli resume {where}"],
        "running": [],
        "damaged": [],
    }
    recorded = any((run / "rollouts").glob("step-*.safetensors"))
    looking = [f"ictcli inspect {where}"] * recorded
    return [command for command in (*commands[one.state], *looking) if command]


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted names; nothing of what is no table."""
    found: dict[str, Any] = {}
    for key, value in (cast(Table, data) if isinstance(data, dict) else {}).items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found |= flat(value, f"{name}.")
        else:
            found[name] = value
    return found
