"""Damage one file of a folder, run a command on the folder, and look at what it says and does.

    python bench/damage.py --cases 5000 --jobs 2

Every case takes a fresh copy of a small folder (a run that is finished or stopped, a comparison, an
evaluation, or data), damages one of its files or puts a pipe, a link, a folder or 40 GB of zeros in
its place, and runs one command in a process of its own, forked from one that has everything loaded.
A case is bad where the command ends in a traceback, by a signal or with an undocumented exit code,
where it hangs or takes more than `MEMORY`, prints JSON that is none, or another result than that of
the whole folder without naming the file, where it reads or changes what lies outside, or where a
bad run hides another from `runs ls`. Prints each bad case and a table; exits with 1 where there is
one.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from corruptions import DAMAGE, SECRET
from damage_commands import COMMANDS, Command
from run_folders import copy, make_folders, make_outside

from ictcli.runs.manifest import MANIFEST

CODES = {0, 1, 2, 3, 130}
"""The documented exit codes."""
MEMORY = 4 << 30
"""Bytes that a command may take, what is loaded included; mapped files are not counted."""
PATIENCE_S = 60
"""Seconds after which a command hangs."""
CLOCKED = {"bytes", "when"}
EXACT = {"show", "diff", "inspect"}
"""Commands whose JSON is the whole run's unless they name the damaged file."""


# Cases


@dataclass(frozen=True)
class Case:
    """A command, the file that is damaged, and how."""

    number: int
    command: Command
    file: str
    damage: str

    def __str__(self) -> str:
        return f"{' '.join(self.command.arguments[:2])} on {self.file} {self.damage}"


def draw(base: Path, seed: int, number: int) -> tuple[Case, random.Random]:
    """Case `number` of a seed."""
    chance = random.Random(f"{seed} {number}")
    command = chance.choices(COMMANDS, [command.share for command in COMMANDS])[0]
    folder = base / command.on / "run"
    files = sorted(
        path for path in folder.glob(command.files) if path.is_file() and path.name != ".lock"
    )
    kinds = sorted({path.suffix for path in files})  # as many cases of each kind of file
    suffix = chance.choice(kinds)
    path = chance.choice([path for path in files if path.suffix == suffix])
    return Case(number, command, str(path.relative_to(folder)), chance.choice([*DAMAGE])), chance


def run_forked(arguments: tuple[str, ...], folder: Path) -> tuple[int | None, str, str]:
    """The exit code (None: it hung), stdout and stderr of a command in a forked process."""
    out, err = folder / ".out", folder / ".err"
    child = os.fork()
    if not child:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os.chdir(folder)
            for path, descriptor in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = ["ictcli", *arguments]
            from ictcli.cli import main

            main()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(code)
    status = _wait(child)
    return status, out.read_text(errors="replace"), err.read_text(errors="replace")


def _wait(child: int) -> int | None:
    limit = time.monotonic() + PATIENCE_S
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > limit:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.002)


def verdict(case: Case, whole: Any, code: int | None, out: str, err: str, folder: Path) -> str:
    """What is wrong with how a command took a damaged file; empty where nothing is."""
    name, as_json = case.command.name, "--json" in case.command.arguments
    if code is None:
        return "hung"
    if "Traceback (most recent call last)" in out + err:
        return "traceback"
    if code not in CODES:
        return f"exit code {code}"
    if code and not err.strip() and name != "check":
        return "failed without a word"
    if "memory of the device is full" in err:
        return "took all memory"
    if SECRET in out + err or any(SECRET.encode() in data for data in made(folder)):
        return "read what lies outside"
    if name == "ls" and (code or not all(run in out for run in ("run", "other"))):
        return "hides a run"
    try:
        data = without_sizes(out) if as_json and not code else None
    except ValueError as error:
        return f"prints no JSON: {error}"
    exact = name in EXACT and as_json and not code
    named = any(part in out + err for part in Path(case.file).parts[-2:])
    if case.file == MANIFEST:  # its checksum of another file is damaged: that one is named
        named = named or "is not what the run wrote" in out + err
    if exact and not named and data != whole:
        return "another result without a word"
    return ""


def made(folder: Path) -> Iterator[bytes]:
    """The content of the small files that a command made."""
    for path in (folder / "out", folder / "page.html"):
        for file in (path, *path.rglob("*")):
            if file.is_file() and file.stat().st_size < 1 << 20:
                yield file.read_bytes()


def without_sizes(out: str) -> Any:
    """What a command printed as JSON, without sizes and times of files. ValueError where it is
    none."""

    def refuse(number: str) -> None:
        raise ValueError(number)

    def strip(data: Any) -> Any:
        if isinstance(data, dict):
            entries = cast(dict[str, Any], data).items()
            return {key: strip(value) for key, value in entries if key not in CLOCKED}
        return [strip(each) for each in cast(list[Any], data)] if isinstance(data, list) else data

    return strip(json.loads(out, parse_constant=refuse))


def warm(base: Path, work: Path) -> None:
    """Run every command once in this process: the forks then find all modules loaded."""
    import gc

    import torch

    from ictcli.cli import main

    torch.set_num_threads(1)
    place, streams = Path.cwd(), [os.dup(descriptor) for descriptor in (1, 2)]
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    for number, command in enumerate(COMMANDS):
        folder = work / f"warm-{number}"
        copy(base / command.on, folder)
        os.chdir(folder)
        sys.argv = ["ictcli", *command.arguments]
        with contextlib.suppress(SystemExit):
            main()
        os.chdir(place)
        shutil.rmtree(folder)
    sys.stdout.flush()
    for descriptor, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, descriptor)
    gc.collect()
    gc.freeze()  # so that the forks share its pages


def soak(base: Path, work: Path, seed: int, numbers: range) -> list[tuple[str, str]]:
    """The bad cases among these, each with what is wrong; prints them as they come."""
    wholes: dict[Command, Any] = {}
    bad: list[tuple[str, str]] = []
    for number in numbers:
        case, chance = draw(base, seed, number)
        folder = work / str(number)
        if case.command not in wholes:
            copy(base / case.command.on, folder)
            code, out, err = run_forked(case.command.arguments, folder)
            wholes[case.command] = without_sizes(out) if "--json" in case.command.arguments else out
            if code:
                raise RuntimeError(f"{case.command.arguments} fails on a whole run: {err}")
            shutil.rmtree(folder)
        copy(base / case.command.on, folder)
        outside = make_outside(folder)
        DAMAGE[case.damage](folder / "run" / case.file, chance)
        code, out, err = run_forked(case.command.arguments, folder)
        problem = verdict(case, wholes[case.command], code, out, err, folder)
        if make_outside(folder) != outside:
            problem = "changed what lies outside"
        if problem:
            bad.append((str(case), problem))
            print(f"--- case {number}: {case}: {problem}\n{(err or out)[-600:]}", flush=True)
        shutil.rmtree(folder)
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folders", type=Path, help="Where the runs are, or are made.")
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", COLUMNS="120")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="damage-") as name:
        base = options.folders or Path(name) / "base"
        if not base.exists():
            make_folders(base)
        work = Path(name) / "work"
        work.mkdir()
        warm(base, work)
        children: list[tuple[int, Path]] = []
        for job in range(options.jobs):
            log = Path(name) / f"job-{job}.json"
            child = os.fork()
            if not child:
                try:
                    numbers = range(job, options.cases, options.jobs)
                    bad = soak(base, work, options.seed, numbers)
                    log.write_text(json.dumps(bad))
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)  # the temporary folder is this process's parent's
            children.append((child, log))
        for child, _ in children:
            os.waitpid(child, 0)
        bad = [entry for _, log in children for entry in json.loads(log.read_text())]
    table = collections.Counter((problem, case) for case, problem in bad)
    for (problem, case), count in sorted(table.items()):
        print(f"{count:4} {problem}: {case}")
    print(f"{options.cases} cases, {len(bad)} bad, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
