"""Every run under a folder, a line each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Literal, cast

from ictcli.runs.read import (
    Table,
    changed,
    count,
    in_use,
    last_line,
    lines,
    number,
    table,
    within,
)

State = Literal["finished", "running", "stopped", "failed", "damaged"]
LEFT = ("metrics.jsonl", "checkpoints", "summary.json", "environment.json", ".lock")
"""What tells a run that lost its recipe, or was killed before it was written."""
DEPTH = 6


@dataclass(frozen=True)
class Entry:
    """A run at a glance; what is not known is None or empty."""

    run: str
    """Its folder."""
    state: State
    recipe: str
    """The name it was trained by, where the command told it."""
    model: str
    task: str
    method: str
    seed: int | None
    step: int
    steps: int | None
    before: float | None
    """pass@1, or of the least k there is, before training."""
    after: float | None
    """At the end, or at the newest evaluation."""
    when: str
    """When it was last written to, in UTC."""
    seconds: float | None
    note: str
    """What is wrong with it."""

    def json(self) -> Table:
        return asdict(self)


def find_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The runs at and below a folder, in the order of their names; not within another run."""
    if _looks_like_a_run(folder):
        yield folder
        return
    try:
        with os.scandir(folder) as found:
            names = sorted(
                one.name
                for one in found
                if one.is_dir(follow_symlinks=False) and not one.name.startswith(".")
            )
    except OSError:
        return
    for name in names if depth else ():
        yield from find_runs(folder / name, depth - 1)


def _looks_like_a_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("recipe.toml", *LEFT))


def list_runs(folder: Path) -> list[Entry]:
    """Every run at and below a folder, the one written to last at the end."""
    return sorted((entry(run) for run in find_runs(folder)), key=lambda one: (one.when, one.run))


def entry(run: Path) -> Entry:
    """One run, from what its folder holds."""
    recipe = table(run / "recipe.toml")
    summary = table(run / "summary.json")
    step = count(within(last_line(run / "metrics.jsonl"), "step")) or 0
    if summary is not None:
        step = count(summary.get("steps")) or step
    state, note = _state(run, recipe, summary)
    recipe = recipe or {}
    method = recipe.get("method")
    before, after = _scores(run, summary)
    at = changed(*(run / name for name in ("summary.json", "metrics.jsonl", "recipe.toml")), run)
    return Entry(
        run=str(run),
        state=state,
        recipe=_trained_by(table(run / "environment.json")),
        model=str(recipe.get("model", "")),
        task=str(recipe.get("task", "")),
        method=str(method if isinstance(method, str) else within(method, "name") or ""),
        seed=count(recipe.get("seed", 0)) if recipe else None,
        step=step,
        steps=count(recipe.get("steps")),
        before=before,
        after=after,
        when=datetime.fromtimestamp(at or 0, UTC).isoformat(timespec="seconds"),
        seconds=number(within(summary, "wall_s")) if summary else _seconds(run),
        note=note,
    )


def _state(run: Path, recipe: Table | None, summary: Table | None) -> tuple[State, str]:
    if in_use(run):
        return "running", ""
    if recipe is None:
        there = (run / "recipe.toml").exists()
        return "damaged", f"recipe.toml {'cannot be read' if there else 'is missing'}"
    if summary is None and (run / "summary.json").exists():
        return "damaged", "summary.json cannot be read"
    if summary is not None:
        return "finished", ""
    failure = within(table(run / "failure.json"), "error")
    return ("failed", str(failure)) if failure else ("stopped", "")


def _trained_by(environment: Table | None) -> str:
    """The recipe's name in `ictcli train NAME`, `compare NAME`."""
    return PurePath(recipe_of(environment)).stem


FLAGS = {
    "train": ("--awake", "--dry-run", "--json"),
    "compare": ("--awake", "--dry-run", "--json"),
}
"""The options of a command that take no value."""


def recipe_of(environment: Table | None) -> str:
    """The recipe as it was typed, or recorded under `recipe_name`; empty where neither is there."""
    if isinstance(recorded := within(environment, "recipe_name"), str):
        return recorded
    words = within(environment, "command")
    typed = [str(word) for word in cast(list[object], words)] if isinstance(words, list) else []
    if not typed or (first := typed[0]) not in FLAGS:
        return ""
    rest = iter(typed[1:])
    for word in rest:
        if not word.startswith("-"):
            return "" if "=" in word else word
        if word != "--" and "=" not in word and word not in FLAGS[first]:
            next(rest, None)  # its value
    return ""


def least_pass(found: Any) -> tuple[str, float] | None:
    """The pass@k of the least k in an evaluation or a part of a summary, with its name."""
    known: list[tuple[int, str, float]] = []
    for name, value in (cast(Table, found) if isinstance(found, dict) else {}).items():
        k = name.removeprefix("pass@")
        mean = number(within(value, "value"))
        if name.startswith("pass@") and k.isdecimal() and mean is not None:
            known.append((int(k), name, mean))
    return min(known)[1:] if known else None


def _scores(run: Path, summary: Table | None) -> tuple[float | None, float | None]:
    if summary is not None:
        before, after = (least_pass(summary.get(name)) for name in ("before", "after"))
    else:
        before = least_pass(table(run / "eval" / "before.json"))
        later = [path for path in evaluations(run) if path.stem != "before"]
        after = least_pass(table(later[-1])) if later else None
    return before[1] if before else None, after[1] if after else None


def evaluations(run: Path) -> Sequence[Path]:
    """The results of evaluations, in the order they were made in."""
    order = {"before": "0", "after": "2"}
    return sorted(
        (run / "eval").glob("*.json"), key=lambda path: order.get(path.stem, f"1{path.stem}")
    )


def _seconds(run: Path) -> float | None:
    """Of the steps so far, evaluations left out."""
    parts = [
        (number(line.get("sample_s")) or 0.0) + (number(line.get("update_s")) or 0.0)
        for line in lines(run / "timings.jsonl")
    ]
    return sum(parts) if parts else None
