"""A comparison of the command line's tests: its arguments, and what it left."""

import json
import signal
from pathlib import Path
from typing import Any

from processes import Ended, Processes, Running, refusal, wait_until

METHODS = ("ict", "grpo")
SEEDS = (0, 1)


class Comparison:
    """One `ictcli compare` command, in a folder of its own."""

    def __init__(self, ictcli: Processes, tiny_model: Path, folder: Path) -> None:
        self.ictcli, self.folder = ictcli, folder
        self.args = (
            *("compare", "chain-compare", f"model={tiny_model}", "steps=4", "checkpoint.every=2"),
            *("prompts=16", "lr=0.003", "max_tokens=40", "eval.problems=8"),
            *("--methods", ",".join(METHODS), "--seeds", "2", "--out"),
        )

    def run(self, out: str, *more: str, form: str = "--json", code: int = 0) -> Ended:
        """The comparison in `out` with `more` settings and options, of which the last count."""
        args = (*self.args, out, *more, *([form] if form else []))
        ended = self.ictcli.run(*args, folder=self.folder)
        assert ended.code == code, ended.err
        return ended

    def refused(self, out: str, *more: str, code: int = 2) -> str:
        return refusal(self.run(out, *more, code=code), code)

    def start(self, out: str, *more: str) -> Running:
        return self.ictcli.start(*self.args, out, *more, "--json", folder=self.folder)

    def kill_at(self, running: Running, out: str, steps: int) -> Ended:
        """Kill it after so many steps of all runs."""
        wait_until(lambda: self.steps(out) >= steps)
        running.send(signal.SIGKILL)
        ended = running.wait()
        assert ended.code == -signal.SIGKILL
        return ended

    def numbers(self, out: str) -> dict[str, Any]:
        """comparison.json without what a clock measured."""
        found = json.loads((self.folder / out / "comparison.json").read_text())
        del found["cost"], found["command"]
        return found

    def steps(self, out: str) -> int:
        """Steps done of all runs together."""
        metrics = (self.folder / out).glob("*/metrics.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in metrics)
