"""Designs of comparisons that nobody runs, and finished runs, as small as they can be."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from made_results import summary
from made_runs import evaluation

from ictcli.compare.design import Design, RunSpec
from ictcli.compare.finished import FinishedRun
from ictcli.compare.launch import Summaries
from ictcli.compare.time_estimate import Timed
from ictcli.compare.variants import read_grid, variants_of
from ictcli.planning.time_estimate import TimeEstimate
from ictcli.runs.records import StepMetrics, StepTimings, Summary

Finished = tuple[list[RunSpec], Summaries]
METHODS = ("ict", "grpo", "random")


def design_of(folder: Path, *sweeps: str, seeds: int = 2) -> Design:
    grids = [read_grid(text, "--sweep") for text in sweeps]
    return Design("chain-compare", ("steps=4",), variants_of(METHODS, grids), seeds, folder)


def timed(step: float, load: float = 1.0) -> Timed:
    return load, TimeEstimate(4, step, 2, 5.12)


def small_design(folder: Path, *overrides: str) -> Design:
    variants = variants_of(METHODS, [])
    return Design("chain-compare", ("steps=3", "eval.problems=2", *overrides), variants, 2, folder)


def finished_run(
    spec: RunSpec,
    metrics: Sequence[StepMetrics] = (),
    timings: Sequence[StepTimings] = (),
    **fields: Any,
) -> FinishedRun:
    """A finished run of these steps, of whose evaluations nothing is asked."""
    none = evaluation({}, (0,), 1)
    return FinishedRun(spec, summary(**fields), none, none, metrics, timings)


BEGAN: dict[str, object] = {"data": {"heldout": {"problems": 2, "sha256": ""}}}


def finish(spec: RunSpec) -> Summary:
    """The files of a finished run, as small as they can be; gives the summary."""
    evaluated = evaluation({}, (0, 4)).model_dump_json()
    lines = [{"step": s, "sample_s": 1.0, "update_s": 1.0, "entropy": 1.0} for s in (1, 2, 3)]
    steps = "".join(json.dumps(line) + "\n" for line in lines)
    files = {
        "summary.json": summary().model_dump_json(),
        "environment.json": json.dumps(BEGAN),
        "eval/before.json": evaluated,
        "eval/after.json": evaluated,
        "metrics.jsonl": steps,
        "timings.jsonl": steps,
    }
    for name, text in files.items():
        path = spec.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return summary()
