"""A comparison of the command line's tests: its arguments, and what it left."""

import json
from pathlib import Path
from typing import Any

from processes import Processes

METHODS = ("ict", "grpo")
SEEDS = (0, 1)


class Comparison:
    """One `ictcli compare` command, in a folder of its own."""

    def __init__(self, ictcli: Processes, tiny_model: Path, folder: Path) -> None:
        self.ictcli, self.folder = ictcli, folder
        self.args = (
            *("compare", "chain-compare", f"model={tiny_model}", "steps=4", "checkpoint.every=2"),
            *("prompts=16", "lr=0.003", "max_tokens=40", "eval.problems=8"),
            *("--methods", ",".join(METHODS), "--seeds", "2", "--json", "--out"),
        )

    def numbers(self, out: str) -> dict[str, Any]:
        """comparison.json without what a clock measured."""
        found = json.loads((self.folder / out / "comparison.json").read_text())
        del found["cost"], found["command"]
        return found

    def steps(self, out: str) -> int:
        """Steps done of all runs together."""
        metrics = (self.folder / out).glob("*/metrics.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in metrics)
