"""The screen. Nothing outside this package imports rich.

Data goes to stdout, narration to stderr. On a terminal a run is a live view, elsewhere one plain
line a step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from ictcli.console.live import LiveWatcher
from ictcli.console.plain import PlainWatcher, narrate
from ictcli.console.results import EvalProgress, evaluations
from ictcli.console.table import print_records, table
from ictcli.evaluation.tables import interval
from ictcli.recipe import Recipe
from ictcli.tasks import BENCHMARKS
from ictcli.tasks.custom import is_custom
from ictcli.train.watcher import RunWatcher

__all__ = [
    "EvalProgress",
    "PlainWatcher",
    "evaluations",
    "narrate",
    "print_records",
    "report",
    "table",
    "watcher",
]


def watcher(recipe: Recipe, folder: Path, *, live: bool = True) -> RunWatcher:
    """The live view where stderr is a terminal, else one plain line a step."""
    err = Console(stderr=True)
    if live and err.is_terminal and not err.is_dumb_terminal:
        return LiveWatcher(recipe, folder)
    return PlainWatcher(recipe, folder)


def report(summary: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    """Before against after, where the model lies, and the next command."""
    if as_json:
        print(json.dumps(summary, indent=2))
        return
    body: list[list[str]] = []
    for metric, after in summary["after"].items():
        before = summary["before"][metric]
        gain = after["value"] - before["value"]
        body.append([metric, interval(before), interval(after), f"{gain:+.3f}"])
    table(["", "before", "after", "change"], body)
    narrate(
        f"\n{summary['problems']} held-out problems, {summary['samples_per_problem']} samples "
        f"each, 95 % intervals over problems. {summary['steps']} steps in "
        f"{summary['wall_s']:.0f} s; {summary['tokens_sampled']:,} tokens sampled, "
        f"{summary['tokens_kept_share']:.1%} of them kept."
    )
    narrate(kept_line(summary["kept_tokens"]))
    made = Path(summary["model"])
    narrate(f"{made.name}: {made}")
    if made.name == "adapter":
        narrate(f"whole: ictcli export {folder} --merge")
    if (best := summary.get("best", {"step": 0}))["step"]:
        told = f"step {best['step']} by {best['metric']} ({best['value']:.3f})"
        narrate(f"best:  {told}: ictcli export {folder} --checkpoint best")
    if bench := benchmark_of(summary["task"]):
        narrate(f"next:  ictcli eval {folder} --bench {bench}")


def benchmark_of(task: str) -> str | None:
    """What to evaluate a model on that was trained on `task`, where there is something."""
    if is_custom(task):
        return None  # its held-out part was evaluated; the rest was trained on
    return ",".join([task, *(name for name in sorted(BENCHMARKS) if name.startswith(f"{task}-"))])


def kept_line(kept: dict[str, float]) -> str:
    """Which tokens were trained, in a sentence; figures that do not exist are left out."""
    parts: list[str] = []
    if "share_kept" in kept:
        parts.append(f"{kept['share_kept']:.1%} of all")
    if "kept_prob" in kept:
        parts.append(f"mean probability {kept['kept_prob']:.2f}")
    if "regime_high" in kept:
        parts.append(f"{kept['regime_high']:.0%} where raising them lowers H2")
    if "fork_recall" in kept and "fork_precision" in kept:
        parts.append(
            f"{kept['fork_recall']:.0%} of the forks, {kept['fork_precision']:.0%} of them forks "
            f"(of all tokens {kept['fork_share']:.0%} are)"
        )
    return "tokens trained (a dense warm-up aside): " + "; ".join(parts)
