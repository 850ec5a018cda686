"""Tracking: a run's figures in TensorBoard, Weights & Biases or trackio, beside metrics.jsonl.

A tracker is opened in a process of its own (`client`), fed through a pipe (`feed`): whatever it
does there, hang, print, crash or wait for a server, no step waits for it. Only numbers, the recipe
and the environment go to it, never a text of a model or a data set, nor a path of this machine
(`ictcli.runs.public`). Where it stands is in RUN/tracking/NAME.json.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PROJECT = "ictcli"


@dataclass(frozen=True)
class About:
    """What a tracker is told of its run."""

    folder: Path
    id: str
    """Eight characters, the same in every sitting of the run."""
    done: int
    """The step the run goes on behind; what a sitting that was killed logged later is void."""
    recipe: dict[str, Any]
    environment: dict[str, Any]


class Tracker(Protocol):
    """A run as one library keeps it. Each module of this package with the library's name has
    `open_tracker(about) -> Tracker`; anything it raises is told once, and ends that tracker."""

    rewinds: bool
    """Whether opening it made it forget the steps behind `About.done`, so that they come again."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep figures by name, of step 0 (before training), 1, 2, ..."""
        ...

    def close(self) -> None:
        """Keep what is not yet kept, and let go."""
        ...


def open_tracker(name: str, about: About) -> Tracker:
    """Open the tracker of that name. Raises ImportError where its library is not installed."""
    return importlib.import_module(f"ictcli.tracking.{name}").open_tracker(about)


def figures(metrics: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """A step's lines of metrics.jsonl and timings.jsonl as figures: train/reward, time/sample_s."""
    parts = (("train/", metrics), ("time/", timing))
    return {
        name if "/" in name else prefix + name: float(value)
        for prefix, values in parts
        for name, value in values.items()
        if isinstance(value, int | float) and name != "step"
    }


def evaluated_figures(found: Mapping[str, Any]) -> dict[str, float]:
    """An evaluation's figures: eval/pass@1, eval/pass@1_low and _high, and shares of samples."""
    told: dict[str, float] = {}
    for name, value in found.items():
        if name.startswith(("pass@", "maj@")) and isinstance(value, dict):
            told[f"eval/{name}"] = value["value"]
            told |= {f"eval/{name}_{end}": value[end] for end in ("low", "high")}
        elif name in ("truncated", "unparsed", "timed_out", "seconds"):
            told[f"eval/{name}"] = float(value)
    return told
