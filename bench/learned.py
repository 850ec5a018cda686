"""What each built-in task's model does before and after its training, greedily and sampled.

    python bench/learned.py [RECIPE ...] [--method grpo] [--json bench/results/learned.json]

Trains every built-in recipe by one method, else as it stands, and measures 128 held-out problems,
one greedy answer and 8 samples each.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import record

from ictcli.evaluation.passk import Interval
from ictcli.runs.records import Summary

RECIPES = ("quickstart", "ledger-easy", "ledger-echo", "ledger-drift", "chain-compare")
METRICS = ("greedy", "pass@1", "pass@4")
PROBLEMS, SAMPLES = 128, 8


def measured(recipe: str, method: str, folder: Path) -> dict[str, Any]:
    """Figures of a run of `recipe`, in percent, with their intervals."""
    run = folder / recipe
    evaluation = (f"eval.problems={PROBLEMS}", f"eval.n={SAMPLES}")
    command = [sys.executable, "-m", "ictcli", "train", recipe, f"method={method}", *evaluation]
    subprocess.run([*command, "--run", str(run)], check=True)
    summary = Summary.model_validate_json((run / "summary.json").read_text(encoding="utf-8"))
    times = {"before": summary.before, "after": summary.after}
    return {time: {name: percent(of[name]) for name in METRICS} for time, of in times.items()}


def percent(figure: Interval) -> list[float]:
    return [round(100 * part, 1) for part in (figure.value, figure.low, figure.high)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--method", default="grpo")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = {
            recipe: measured(recipe, options.method, Path(name)) for recipe in options.recipes
        }
    for recipe, of in figures.items():
        print(recipe, of)
    if options.json:
        record(options.json, ("torch", "transformers"), method=options.method, recipes=figures)


if __name__ == "__main__":
    main()
