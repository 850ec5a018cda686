"""Kill a run at random moments, resume it each time, and hold what it leaves against one that was
never stopped.

    python bench/kills.py --backend torch --kills 50 update.epochs=2 checkpoint.every=2

SIGKILL, so that nothing can be tidied up, to `ictcli train` and `ictcli resume` as a shell starts
them: while one starts, evaluates, steps, saves or writes the final model. With `--ranks 2` to any
process of a launch of so many, which nobody resumes: torchrun's restarts do. At the end
metrics.jsonl, rollouts, samples, checkpoints and the final weights must be the other run's, byte by
byte. Prints one line a kill and a table; exits with 1 where a byte differs.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from ictcli.runs import Run

SMALL = (
    *("model=builtin:chain", "warmup=4", "prompts=4", "group=4", "max_tokens=48", "steps=90"),
    *("eval.problems=16", "eval.n=2", "eval.k=[1,2]", "eval.every=5", "record.rollouts_every=3"),
    *("update.epochs=2", "update.minibatch=2", "kl=0.01", "checkpoint.every=2"),
    *("checkpoint.best=eval/pass@1", "lr=2e-4"),
)
CLOCKED = ("wall_s", "cpu_s", "train_s", "peak_bytes", "model")


class Runs:
    """Commands on a run folder, as processes."""

    def __init__(self, base: Path, args: list[str]) -> None:
        self.folder, self.base, self.args = base / "killed", base, args

    def start(self, name: str = "killed") -> subprocess.Popen[bytes]:
        fresh = not (self.base / name / "recipe.toml").exists()
        command = ["train", "chain", *self.args, "--run", name] if fresh else ["resume", name]
        return self.process(name, "-m", "ictcli", *command, "--json")

    def process(self, name: str, *program: str) -> subprocess.Popen[bytes]:
        """A program of Python's, whose stderr goes to the log of that name."""
        command = [sys.executable, *program]
        with (self.base / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.base, stdout=subprocess.DEVNULL, stderr=log)

    def kill(self, process: subprocess.Popen[bytes]) -> str:
        """Kill it; says what."""
        process.kill()
        process.wait()
        return ""

    def end(self, process: subprocess.Popen[bytes], name: str = "killed") -> None:
        """Wait for a process that should succeed; exits with its log's end where it does not."""
        if process.wait():
            sys.exit((self.base / f"{name}.log").read_text()[-2000:])

    def steps(self) -> int:
        file = self.folder / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def saved(self) -> int:
        names = [path.name for path in (self.folder / "checkpoints").glob("step-*")]
        return max((int(name.removeprefix("step-")) for name in names), default=0)


class RankedRuns(Runs):
    """The command in several processes, which torch's launcher starts again when it loses one."""

    def __init__(self, base: Path, args: list[str], ranks: int, chance: random.Random) -> None:
        super().__init__(base, args)
        self.ranks, self.chance = ranks, chance
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str = "killed") -> subprocess.Popen[bytes]:
        if name not in self.started:
            command = ["train", "chain", *self.args, "--run", name, "--json"]
            ranks = ["--launch", str(self.ranks), "--"]
            self.started[name] = self.process(name, __file__, *ranks, *command)
        return self.started[name]

    def kill(self, process: subprocess.Popen[bytes]) -> str:
        launcher = psutil.Process(process.pid)
        while len(ranks := [*{*launcher.children(recursive=True)} - {*launcher.children()}]) < (
            self.ranks
        ):
            time.sleep(0.01)
        lost = self.chance.randrange(self.ranks)
        sorted(ranks, key=lambda rank: rank.pid)[lost].kill()
        psutil.wait_procs(ranks)
        return f"rank {lost}"


def launch(ranks: int, command: list[str]) -> None:
    """`torchrun --max-restarts 999`, but that processes are forks of one that holds torch loaded:
    that takes longer than all else here."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    multiprocessing.set_forkserver_preload(
        ["ictcli_torch.shard", "transformers.models.qwen2.modeling_qwen2", "ictcli.train.launch"]
    )
    config = LaunchConfig(
        *(1, 1, ranks),
        run_id="kills",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="forkserver",
        max_restarts=999,
        monitor_interval=0.1,
    )
    elastic_launch(config, become)(*command)


def become(*command: str) -> None:
    from ictcli.__main__ import main

    sys.argv = ["ictcli", *command]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def wait(process: subprocess.Popen[bytes], true: Callable[[], bool], longer: float = 0.0) -> bool:
    """Until it is true, and `longer` seconds more; False where the process ended before."""
    while not true():
        if process.poll() is not None:
            return False
        time.sleep(0.0002)
    time.sleep(longer)
    return True


Moment = Callable[[subprocess.Popen[bytes], float], bool]
"""Waits for a moment of a process, whose start-up takes so many seconds."""


def moments(runs: Runs, chance: random.Random) -> dict[str, tuple[int, Moment]]:
    """Of each kind of moment the share of the kills, and what waits until it is there; False where
    the process ended before."""

    def starting(process: subprocess.Popen[bytes], startup: float) -> bool:
        limit = time.monotonic() + chance.uniform(0, startup)
        return wait(process, lambda: time.monotonic() > limit)

    def stepping(process: subprocess.Popen[bytes], startup: float) -> bool:
        target, reached = runs.steps() + chance.randrange(1, 4), runs.saved()
        if not wait(process, lambda: runs.steps() <= reached or runs.steps() >= target):
            return False
        target = max(target, reached + 1)
        return wait(process, lambda: runs.steps() >= target, chance.uniform(0, 0.3))

    def evaluating(process: subprocess.Popen[bytes], startup: float) -> bool:
        def samples() -> dict[str, int]:
            files = (runs.folder / "eval").glob("*.jsonl")
            return {path.name: path.stat().st_size for path in files}

        before = samples()
        return wait(process, lambda: samples() != before, chance.uniform(0, 0.05))

    def writing(longest: float, *patterns: str) -> Moment:
        def there() -> bool:
            return any(any(runs.folder.glob(pattern)) for pattern in patterns)

        return lambda process, startup: wait(process, there, chance.uniform(0, longest))

    return {
        "starting": (3, starting),
        "stepping": (6, stepping),
        "evaluating": (4, evaluating),
        "saving": (6, writing(0.03, "checkpoints/.step-*.tmp")),
        "restoring": (1, writing(0.01, ".metrics*.tmp")),
        "finishing": (0, writing(0.03, ".model.*.tmp", ".adapter.*.tmp")),
    }


def result(folder: Path) -> dict[str, bytes]:
    """All that a run leaves and no clock has touched, by path."""
    parts = ("metrics.jsonl", "rollouts/*", "eval/*.jsonl", "model/*", "adapter/*")
    saved = ("checkpoints/*/*.safetensors",)
    files = [path for part in (*parts, *saved) for path in folder.glob(part) if path.is_file()]
    summary = json.loads((folder / "summary.json").read_text())
    rest = {key: value for key, value in summary.items() if key not in CLOCKED}
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}
    return {**contents, "summary.json": json.dumps(rest).encode()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--ranks", type=int, default=0, help="processes of a launch")
    parser.add_argument("--launch", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.launch:
        launch(options.launch, options.overrides)
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    settings = [*SMALL, f"engine.backend={options.backend}", *options.overrides]
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        chance = random.Random(options.seed)
        runs = Runs(Path(name), settings)
        if options.ranks:
            runs = RankedRuns(Path(name), settings, options.ranks, chance)
        same = soak(runs, options.kills, options.seed, chance)
    sys.exit(0 if same else 1)


def soak(runs: Runs, kills: int, seed: int, chance: random.Random) -> bool:
    begun = time.monotonic()
    process = runs.start("whole")
    wait(process, lambda: (runs.base / "whole" / "eval").exists())
    startup = time.monotonic() - begun
    runs.end(process, "whole")
    print(f"seed {seed}: uninterrupted in {time.monotonic() - begun:.1f} s, start-up {startup:.1f}")
    kinds, steps = moments(runs, chance), len(Run(runs.base / "whole").metrics())
    counts: collections.Counter[str] = collections.Counter()
    lost: list[int] = []
    while (left := kills - counts.total()) > 0:
        kind = chance.choices(list(kinds), [share for share, _ in kinds.values()])[0]
        if left <= 2:  # the last ones, since nothing comes after
            kind = "finishing"
        elif steps - runs.saved() < 10:
            kind = "starting"
        process = runs.start()
        if not kinds[kind][1](process, startup):
            runs.end(process)
            if kind == "finishing":  # quicker than the eye: an export of adapters takes no time
                break
            sys.exit(f"the run ended after {counts.total()} kills: more steps are needed")
        what = runs.kill(process)
        counts[kind] += 1
        lost.append(runs.steps() - runs.saved())
        print(
            f"{counts.total():3} {kind:10} {what} at step {runs.steps()}, saved {runs.saved()}",
            flush=True,
        )
    runs.end(runs.start())
    whole, killed = result(runs.base / "whole"), result(runs.folder)
    differ = [name for name in {**whole, **killed} if whole.get(name) != killed.get(name)]
    left_over = [str(path) for path in runs.folder.rglob(".*.tmp")]
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print(f"steps repeated after a kill: {sum(lost)} in all, {max(lost)} at most")
    same = not differ and not left_over
    print(f"{len(whole)} files: {'the same bytes' if same else f'DIFFER: {differ} {left_over}'}")
    print(f"{counts.total()} kills in {time.monotonic() - begun:.0f} s")
    return same


if __name__ == "__main__":
    main()
