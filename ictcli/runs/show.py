"""One run in full: what was asked, where it ran, how far it came, what it reached and takes up."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, cast

from ictcli.runs.list import Entry, entry, evaluations
from ictcli.runs.read import Table, count, lines, number, scores_of, size, table, within

CURVES = (
    *("reward", "entropy", "renyi2", "share_kept", "length", "truncated", "grad_norm", "kl"),
    *("clip_fraction", "groups_with_signal", "fork_recall", "probe_pearson"),
)
"""The metrics that are summed up, where a run has them."""
PARTS = ("model", "adapter", "checkpoints", "rollouts", "eval", "tensorboard", "wandb")
EVALUATED = ("benchmark", "problems", "n", "truncated", "unparsed", "timed_out", "seconds")


def detail(run: Path) -> Table:
    """Everything `ictcli runs show` tells of a run, as data."""
    one = entry(run)
    environment = table(run / "environment.json") or {}
    return {
        **one.json(),
        "keys": table(run / "recipe.toml") or {},
        "data": within(environment, "data") or {},
        "environment": {key: value for key, value in environment.items() if key != "data"},
        "metrics": summed_up(lines(run / "metrics.jsonl")),
        "seconds_per_step": _pace(lines(run / "timings.jsonl")),
        "peak_bytes": max(
            (count(line.get("peak_bytes")) or 0 for line in lines(run / "timings.jsonl")), default=0
        )
        or None,
        "evaluations": [_evaluation(path) for path in evaluations(run)],
        "checkpoints": _checkpoints(run),
        "bytes": _sizes(run),
        "next": next_commands(run, one),
    }


def summed_up(metrics: list[Table]) -> Table:
    """By name: the first value, the mean of the last tenth of the steps, least, most, and all."""
    found: Table = {}
    for name in CURVES:
        values = [value for line in metrics if (value := number(line.get(name))) is not None]
        if values:
            last = values[-max(1, len(values) // 10) :]
            found[name] = {
                "first": values[0],
                "last_tenth": sum(last) / len(last),
                "least": min(values),
                "most": max(values),
                "values": values,
            }
    return found


def _pace(timings: list[Table]) -> float | None:
    """The median seconds of a step."""
    parts = [(number(line.get("sample_s")), number(line.get("update_s"))) for line in timings]
    known = sorted(one + other for one, other in parts if one is not None and other is not None)
    return known[len(known) // 2] if known else None


def _evaluation(path: Path) -> Table:
    found = table(path)
    if found is None:
        return {"label": path.stem, "damaged": True}
    return {
        "label": path.stem,
        **{name: found[name] for name in EVALUATED if name in found},
        **scores_of(found),
    }


def _checkpoints(run: Path) -> list[Table]:
    found: list[Table] = []
    for path in sorted((run / "checkpoints").glob("step-*")):
        state = table(path / "state.json")
        found.append(
            {
                "path": str(path),
                "step": count(within(state, "step")),
                "bytes": size(path),
                "whole": state is not None,
            }
        )
    return found


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
