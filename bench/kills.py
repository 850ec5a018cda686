"""Kill a run at random moments, resume it each time, and hold what it leaves against one that was
never stopped.

    python bench/kills.py --backend torch --kills 50 update.epochs=2 checkpoint.every=2

SIGKILL, so that nothing can be tidied up, to `ictcli train` and `ictcli resume` as a shell starts
them: while one starts, evaluates, steps, saves or writes the final model. At the end metrics.jsonl,
rollouts, samples, checkpoints and the final weights must be the other run's, byte by byte. Prints
one line a kill and a table; exits with 1 where a byte differs.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ictcli.runs import Run

SMALL = (
    *("model=builtin:chain", "warmup=4", "prompts=4", "group=4", "max_tokens=48", "steps=90"),
    *("eval.problems=16", "eval.n=2", "eval.k=[1,2]", "eval.every=5", "record.rollouts_every=3"),
    *("update.epochs=2", "update.minibatch=2", "kl=0.01", "checkpoint.every=2"),
    *("checkpoint.best=eval/pass@1", "lr=2e-4"),
)
CLOCKED = ("wall_s", "train_s", "peak_bytes", "model")


class Runs:
    """Commands on a run folder, as processes."""

    def __init__(self, base: Path, args: list[str]) -> None:
        self.folder, self.base, self.args = base / "killed", base, args

    def start(self, name: str = "killed") -> subprocess.Popen[bytes]:
        fresh = not (self.base / name / "recipe.toml").exists()
        command = ["train", "quickstart", *self.args, "--run", name] if fresh else ["resume", name]
        log = (self.base / f"{name}.log").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "ictcli", *command, "--json"],
                cwd=self.base,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def steps(self) -> int:
        file = self.folder / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def saved(self) -> int:
        names = [path.name for path in (self.folder / "checkpoints").glob("step-*")]
        return max((int(name.removeprefix("step-")) for name in names), default=0)


def wait(process: subprocess.Popen[bytes], true: Callable[[], bool]) -> bool:
    """Until it is true; False where the process ended before."""
    while not true():
        if process.poll() is not None:
            return False
        time.sleep(0.0002)
    return True


def sampled(folder: Path) -> tuple[tuple[str, int], ...]:
    files = sorted((folder / "eval").glob("*.jsonl")) if folder.exists() else []
    return tuple((path.name, path.stat().st_size) for path in files)


def moments(runs: Runs, chance: random.Random) -> dict[str, tuple[int, Callable[..., bool]]]:
    """Of each kind of moment the share of the kills, and what waits until it is there; False where
    the process ended before."""
    saving, restoring, made = (
        "checkpoints/.step-*.tmp",
        ".metrics*.tmp",
        (".model.*.tmp", ".adapter.*.tmp"),
    )

    def started(process: subprocess.Popen[bytes], startup: float) -> bool:
        limit = time.monotonic() + chance.uniform(0, startup)
        return wait(process, lambda: time.monotonic() > limit)

    def stepped(process: subprocess.Popen[bytes], startup: float) -> bool:
        target = runs.steps() + chance.randrange(1, 4)
        reached = runs.saved()
        if not wait(process, lambda: runs.steps() <= reached or runs.steps() >= target):
            return False
        found = wait(process, lambda: runs.steps() >= max(target, reached + 1))
        time.sleep(chance.uniform(0, 0.3))
        return found

    def evaluated(process: subprocess.Popen[bytes], startup: float) -> bool:
        before = sampled(runs.folder)
        found = wait(process, lambda: sampled(runs.folder) != before)
        time.sleep(chance.uniform(0, 0.05))
        return found

    def wrote(longest: float, *patterns: str) -> Callable[..., bool]:
        def wait_for(process: subprocess.Popen[bytes], startup: float) -> bool:
            found = wait(process, lambda: any(any(runs.folder.glob(one)) for one in patterns))
            time.sleep(chance.uniform(0, longest))
            return found

        return wait_for

    return {
        "starting": (3, started),
        "stepping": (6, stepped),
        "evaluating": (4, evaluated),
        "saving": (6, wrote(0.03, saving)),
        "restoring": (1, wrote(0.01, restoring)),
        "finishing": (0, wrote(0.03, *made)),
    }


def result(folder: Path) -> dict[str, bytes]:
    """All that a run leaves and no clock has touched, by path."""
    parts = ("metrics.jsonl", "rollouts/*", "eval/*.jsonl", "model/*", "adapter/*")
    saved = ("checkpoints/best.json", "checkpoints/*/*.safetensors")
    files = [path for part in (*parts, *saved) for path in folder.glob(part) if path.is_file()]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}
    summary = json.loads((folder / "summary.json").read_text())
    rest = {key: value for key, value in summary.items() if key not in CLOCKED}
    return {**found, "summary.json": json.dumps(rest).encode()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        base = Path(name)
        given = [*SMALL, f"engine.backend={args.backend}", *args.overrides]
        sys.exit(soak(Runs(base, given), args.kills, random.Random(args.seed), args.seed))


def soak(runs: Runs, kills: int, chance: random.Random, seed: int) -> int:
    begun = time.monotonic()
    process = runs.start("whole")
    wait(process, lambda: (runs.base / "whole" / "eval").exists())
    startup = time.monotonic() - begun
    if process.wait():
        print((runs.base / "whole.log").read_text())
        return 1
    print(f"seed {seed}: uninterrupted in {time.monotonic() - begun:.1f} s, start-up {startup:.1f}")
    kinds, steps = moments(runs, chance), len(Run(runs.base / "whole").metrics())
    counts: collections.Counter[str] = collections.Counter()
    lost: list[int] = []
    while sum(counts.values()) < kills:
        left = kills - sum(counts.values())
        kind = chance.choices(list(kinds), [share for share, _ in kinds.values()])[0]
        if left <= 2:  # the last ones, since nothing comes behind
            kind = "finishing"
        elif steps - runs.saved() < 10:
            kind = "starting"
        process = runs.start()
        if not kinds[kind][1](process, startup):
            if process.wait():
                print((runs.base / "killed.log").read_text()[-2000:])
                return 1
            if kind == "finishing":  # quicker than the eye: an export of adapters takes no time
                break
            print(f"the run ended after {sum(counts.values())} kills: more steps are needed")
            return 1
        process.kill()
        process.wait()
        counts[kind] += 1
        lost.append(runs.steps() - runs.saved())
        print(
            f"{sum(counts.values()):3} {kind:10} at step {runs.steps()}, saved {runs.saved()}",
            flush=True,
        )
    if runs.start().wait():
        print((runs.base / "killed.log").read_text()[-2000:])
        return 1
    whole, killed = result(runs.base / "whole"), result(runs.folder)
    differ = [name for name in {**whole, **killed} if whole.get(name) != killed.get(name)]
    left_over = [str(path) for path in runs.folder.rglob(".*.tmp")]
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print(f"steps repeated after a kill: {sum(lost)} in all, {max(lost)} at most")
    same = not differ and not left_over
    print(f"{len(whole)} files: {'the same bytes' if same else f'DIFFER: {differ} {left_over}'}")
    print(f"{sum(counts.values())} kills in {time.monotonic() - begun:.0f} s")
    return 0 if same else 1


if __name__ == "__main__":
    main()
