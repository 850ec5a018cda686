"""What `ictcli compare` prints: the plan, what tuning chose, and the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ictcli.compare.time_estimate import TimeEstimate
from ictcli.console.plain import narrate
from ictcli.console.table import table
from ictcli.text import duration


def planned(outlook: TimeEstimate, jobs: int, *, as_json: bool) -> None:
    """The runs with what each will take alone, and what all of them will, as a table or JSON."""
    if as_json:
        print(json.dumps({"jobs": jobs, **outlook.json()}, indent=2, ensure_ascii=False))
        return
    table(
        ["run", "method", "seed", "steps", "lr", "time", "MiB"],
        [
            [
                str(one.spec.folder),
                one.spec.variant.label,
                str(one.spec.seed),
                str(one.spec.recipe.steps),
                "by tuning" if one.spec.untuned == "lr" else f"{one.spec.recipe.lr:g}",
                "finished" if one.finished else duration(one.seconds),
                "" if one.finished else f"{one.bytes / 2**20:,.0f}",
            ]
            for one in outlook.planned
        ],
    )
    at_once = f", {outlook.at_once} at a time" if outlook.at_once > 1 else ""
    if outlook.at_once < jobs:
        at_once += f" (--jobs {jobs} asks for more than there are cores for)"
    kinds = len(outlook.measured)
    of_each = "one run" if kinds == 1 else f"{kinds} kinds of run"
    narrate(
        f"\n{len(outlook.planned)} runs, {outlook.left} of them to do: about "
        f"{duration(outlook.seconds)}{at_once}, and {outlook.bytes / 2**20:,.0f} MiB of disk; "
        f"from steps of {of_each}, timed now."
    )


def tuned_to(chosen: Mapping[str, str], lost: Sequence[str]) -> None:
    """Which value each variant goes on with, and which go no further."""
    narrate("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
    for label in lost:
        narrate(f"note: {label} is left out: none of its tuning runs finished")


def _over_seeds(found: dict[str, Any]) -> str:
    low, high = found["low"], found["high"]
    if low is None or high is None:
        return f"{found['value']:.3f}"
    if min(found["value"] - low, high - found["value"]) < 0.99 * (high - low) / 2:  # cut at 0 or 1
        return f"{found['value']:.3f} [{low:.3f}, {high:.3f}]"
    return f"{found['value']:.3f} ± {(high - low) / 2:.3f}"


def _share(found: dict[str, Any], name: str) -> str:
    return f"{found[name]:.1%}" if name in found else "-"


def comparison(result: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    """A comparison as JSON or as two tables: what was reached, and what was kept."""
    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return
    metrics = [key for key in result["rows"][0] if key.startswith("pass@")]
    table(
        ["method", "seeds", *metrics, "tokens kept", "forks kept", "kept that fork", "s/step"],
        [
            [
                row["method"],
                str(row["seeds"]),
                *(_over_seeds(row[metric]) for metric in metrics),
                _share(row, "tokens_kept_share"),
                _share(row, "fork_recall"),
                _share(row, "fork_precision"),
                f"{row['seconds_per_step']:.2f}" if "seconds_per_step" in row else "-",
            ]
            for row in result["rows"]
        ],
    )
    seeds = len(result["seeds"])
    over = "seeds and problems" if seeds > 1 else "problems: one seed says nothing of others"
    narrate(
        f"\nmean ± half of the 95 % interval over {over}; forks: recall and precision while "
        "training, behind the dense warm-up.\n"
    )
    if result["forks"]:
        body: list[list[str]] = []
        for row in result["forks"]:
            own, blind, equal = row["own"], row["random_at_own"], row["equal"]
            body.append(
                [
                    row["method"],
                    f"{own['share']:.1%}",
                    f"{own['recall']:.3f} ({blind['recall']:.3f})",
                    f"{own['precision']:.3f} ({blind['precision']:.3f})",
                    f"{equal['share']:.1%}" if equal else "-",
                    f"{equal['recall']:.3f}" if equal else "-",
                    f"{equal['precision']:.3f}" if equal else "-",
                ]
            )
        columns = ["method", "share", "recall (random)", "precision (random)"]
        table([*columns, "near 10 %", "recall there", "precision there"], body)
        narrate(
            "\ntrue forks kept, on the same rollouts of the model before training; near 10 %: the "
            "share that keep=0.1 comes to, by response or over the batch as the method takes it\n"
        )
    for line in result["failed"]:
        narrate(f"failed: {line}")
    for line in result["notes"]:
        narrate(f"note: {line}")
    narrate(f"runs: {folder}\nreport: {folder / 'report.html'}")
