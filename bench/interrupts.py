"""Press Ctrl-C at random moments of every command: the exit code, what is printed, who is left.

    python bench/interrupts.py --presses 400

A press is bad where the command ends neither with 130 nor as it does undisturbed, prints a
traceback, does not end within 20 s, or leaves a process behind; one press in four comes twice.
One in ten kills the command instead (SIGKILL): then nothing of it may be left after 5 s. Prints
each bad press and a line a command; exits with 1 where there is a bad one.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from run_folders import SMALL, make_folders

COMPARED = ("compare", "chain", *SMALL, "--methods", "ict,random", "--seeds", "1")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "help": ("finished", ("--help",)),
    "ls": ("finished", ("runs", "ls", ".")),
    "show": ("finished", ("runs", "show", "run")),
    "diff": ("finished", ("runs", "diff", "run", "other")),
    "inspect": ("finished", ("inspect", "run", "--json")),
    "page": ("finished", ("inspect", "run", "--html", "page.html")),
    "methods": ("finished", ("methods",)),
    "doctor": ("finished", ("doctor",)),
    "grade": ("finished", ("grade", "answers.jsonl")),
    "eval": ("finished", ("eval", "run", "--bench", "chain", "--limit", "64", "--n", "4")),
    "check": ("finished", ("runs", "check", "run")),
    "gc": ("finished", ("runs", "gc", "run", "--finished")),
    "generate": ("finished", ("generate", "run", "7*9-8+2*2+3*7=", "--n", "64", "--gold", "80")),
    "completion": ("finished", ("completion", "bash")),
    "export": ("finished", ("export", "run", "--checkpoint", "4", "--out", "out")),
    "train": ("finished", ("train", "chain", *SMALL, "steps=20", "--run", "new")),
    "resume": ("stopped", ("resume", "run")),
    "dry run": ("finished", ("train", "chain", *SMALL, "--dry-run")),
    "compare": ("finished", (*COMPARED, "--out", "many")),
    "jobs": ("finished", (*COMPARED, "--out", "many", "--jobs", "2", "steps=60")),
}
"""Each command, and the folder of `run_folders.make_folders` that it runs in."""

START_S = 0.1
"""Seconds in which Python itself may be starting, which Ctrl-C ends in its own way."""


def press(base: Path, folder: Path, name: str, moment: float, *, twice: bool, kill: bool) -> str:
    """What is wrong with how a command took Ctrl-C at a moment in seconds; empty where nothing."""
    place, arguments = COMMANDS[name]
    shutil.copytree(base / place, folder)
    log = folder / ".log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ictcli", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    number = signal.SIGKILL if kill else signal.SIGINT
    for _ in range(2 if twice else 1):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(0.2)
    try:
        code = process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "did not end within 20 s"
    limit = time.monotonic() + 5
    while (left := orphans(folder)) and time.monotonic() < limit:
        time.sleep(0.05)
    for orphan in left:
        with contextlib.suppress(psutil.Error):
            orphan.kill()
    text = log.read_text(errors="replace")
    if left:
        return f"left {len(left)} processes: {left}"
    if moment < START_S:
        return ""
    if "Traceback (most recent call last)" in text:
        return f"traceback: {text[-800:]}"
    if not kill and code not in (0, 130):
        return f"exit code {code}: {text[-400:]}"
    return ""


def orphans(folder: Path) -> list[psutil.Process]:
    """Processes that work in a folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--presses", type=int, default=160)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", type=Path, help="Where the runs are, or are made.")
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    chance = random.Random(options.seed)
    bad: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="interrupts-") as temporary:
        base = options.folders or Path(temporary) / "base"
        if not base.exists():
            make_folders(base)
        lines = [{"response": f"\\boxed{{x^2+{n}}}", "gold": f"{n}+x*x"} for n in range(400)]
        answers = "".join(json.dumps(line) + "\n" for line in lines)
        (base / "finished" / "answers.jsonl").write_text(answers)
        seconds: dict[str, float] = {}
        for number in range(options.presses):
            name = list(COMMANDS)[number % len(COMMANDS)]
            folder = Path(temporary) / str(number)
            if name not in seconds:
                begun = time.monotonic()
                problem = press(base, folder, name, 600, twice=False, kill=False)
                seconds[name] = time.monotonic() - begun
                shutil.rmtree(folder)
            kill = chance.random() < 0.1
            moment = chance.uniform(0, seconds[name]) if number % 3 else chance.uniform(0, 0.5)
            twice = chance.random() < 0.25
            problem = press(base, folder, name, moment, twice=twice, kill=kill)
            count[name] += 1
            if problem:
                bad[name] += 1
                how = "killed" if kill else "twice" if twice else "once"
                line = f"--- {name} at {moment:.2f} of {seconds[name]:.2f} s, {how}: {problem}"
                print(line, flush=True)
            shutil.rmtree(folder)
    for name in COMMANDS:
        print(f"{name:8} {count[name]:4} presses, {bad[name]} bad")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
