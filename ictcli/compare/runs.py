"""Train every run of a comparison, one after another or several at once; done is done."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ictcli.compare.plan import Member
from ictcli.console.plain import RunWatcher, duration
from ictcli.errors import InterruptedRunError, UserError
from ictcli.launch import finish_step_on_interrupt, launch
from ictcli.recipe import Recipe, with_threads
from ictcli.runs import Run, is_run

Summaries = dict[Path, dict[str, Any]]
Watch = Callable[[Recipe, Path], AbstractContextManager[RunWatcher]]
GOES_ON = "the same command goes on from there"


def train_all(
    runs: Sequence[Member],
    watcher: Watch,
    say: Callable[[str], None],
    *,
    jobs: int = 1,
    threads: int | None = None,
) -> tuple[Summaries, list[str]]:
    """Summaries by folder, and a line for each run that failed; the rest goes on. `threads` are
    those of a run at most. Raises InterruptedRunError at Ctrl-C, with every run saved."""
    summaries: Summaries = {}
    failed: list[str] = []
    todo: list[tuple[str, Member]] = []
    for number, member in enumerate(runs, 1):
        place = f"run {number}/{len(runs)}: {member.name}"
        fresh = not is_run(member.folder)
        run = Run.create(member.folder, member.recipe) if fresh else Run.open(member.folder)[0]
        with run:
            summary = run.read("summary.json")
        if summary is not None:
            say(place + ", finished before")
            summaries[member.folder] = summary
        else:
            todo.append((place + ("" if fresh else ", continued"), member))
    if jobs > 1:
        train = _side_by_side(todo, say, jobs, threads)
    else:
        train = _in_turn(todo, watcher, say, threads)
    for place, member, result in train:
        if isinstance(result, str):
            failed.append(f"{place}: {result}")
            say(f"failed: {failed[-1]}")
        else:
            summaries[member.folder] = result
    return summaries, failed


def _in_turn(
    todo: Sequence[tuple[str, Member]],
    watcher: Watch,
    say: Callable[[str], None],
    threads: int | None,
) -> Iterator[tuple[str, Member, dict[str, Any] | str]]:
    for place, member in todo:
        say(place)
        run, _ = Run.open(member.folder)
        recipe = with_threads(member.recipe, threads)
        with run, watcher(member.recipe, member.folder) as watch:
            try:
                result: dict[str, Any] | str = launch(run, recipe, watch, watch.attach)
            except InterruptedRunError as error:
                raise InterruptedRunError(f"{place}. {error.message}", GOES_ON) from error
            except UserError as error:
                result = error.message
            except Exception as error:  # a method's, a verifier's: the other runs go on
                result = f"{type(error).__name__}: {error}"
        yield place, member, result


def _side_by_side(
    todo: Sequence[tuple[str, Member]],
    say: Callable[[str], None],
    jobs: int,
    threads: int | None,
) -> Iterator[tuple[str, Member, dict[str, Any] | str]]:
    """Each run in a process of its own, `jobs` of them at a time; what it says goes to its log."""
    waiting = list(todo)
    running: list[tuple[str, Member, subprocess.Popen[bytes], float]] = []
    with finish_step_on_interrupt(say) as interrupted:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not interrupted():
                    place, member = waiting.pop(0)
                    say(place)
                    running.append((place, member, _start(member, threads), time.monotonic()))
                if interrupted():
                    _stop(running)
                    raise InterruptedRunError(
                        "Interrupted: every run finished and saved the step in flight.", GOES_ON
                    )
                time.sleep(0.2)
                for one in [one for one in running if one[2].poll() is not None]:
                    running.remove(one)
                    place, member, process, started = one
                    result = _result(member, process.returncode)
                    if not isinstance(result, str):
                        say(f"{place}: finished in {duration(time.monotonic() - started)}")
                    yield place, member, result
        finally:
            _stop(running)


def _start(member: Member, threads: int | None) -> subprocess.Popen[bytes]:
    """`ictcli resume` of the run in a session of its own: Ctrl-C reaches it through this process
    alone."""
    more = ["--threads", str(threads)] if threads else []
    with (member.folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ictcli", "resume", str(member.folder), "--json", *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def _stop(running: list[tuple[str, Member, subprocess.Popen[bytes], float]]) -> None:
    """Have every process save its step and end."""
    for _, _, process, _ in running:
        if process.poll() is None:
            process.terminate()  # a shell's background jobs ignore SIGINT
    for _, _, process, _ in running:
        process.wait()
    running.clear()


def _result(member: Member, code: int) -> dict[str, Any] | str:
    run, _ = Run.open(member.folder)
    with run:
        summary = run.read("summary.json")
    if summary is not None:
        return summary
    log = (member.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    errors = [line for line in log.splitlines() if line.startswith("error: ")]
    return errors[-1].removeprefix("error: ") if errors else f"it ended with code {code}"
