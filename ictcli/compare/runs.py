"""Train every run of a comparison, one after another or several at once; done is done."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ictcli.compare.folder import FULL, GOES_ON, full
from ictcli.compare.plan import Member, is_unused
from ictcli.errors import InterruptedRunError, UserError
from ictcli.files import write_text
from ictcli.recipe import Recipe, to_toml, with_threads
from ictcli.runs import Run, is_run
from ictcli.text import duration
from ictcli.train.launch import finish_step_on_interrupt, launch
from ictcli.train.watcher import RunWatcher

Summaries = dict[Path, dict[str, Any]]
Watch = Callable[[Recipe, Path], AbstractContextManager[RunWatcher]]
Result = dict[str, Any] | str
"""A summary, or why there is none."""
NO_SPACE = "No space is left on the disk"


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

    def done(place: str, member: Member, result: Result) -> None:
        if isinstance(result, str):
            failed.append(f"{place}: {result}")
            say(f"failed: {failed[-1]}")
        else:
            summaries[member.folder] = result

    todo: list[tuple[str, Member]] = []
    for number, member in enumerate(runs, 1):
        place = f"run {number}/{len(runs)}: {member.name}"
        known = _begin(member, say)
        if known is None:
            todo.append((place, member))
        elif known == {}:
            todo.append((place + ", continued", member))
        else:
            if not isinstance(known, str):
                say(place + ", finished before")
            done(place, member, known)
    if jobs > 1:
        train = _side_by_side(todo, say, jobs, threads)
    else:
        train = _in_turn(todo, watcher, say, threads)
    for place, member, result in train:
        done(place, member, result)
    return summaries, failed


def _begin(member: Member, say: Callable[[str], None]) -> Result | None:
    """What an earlier command left of a run: its summary, {} where it is unfinished, a sentence
    where the summary is damaged; None of a run that is made now."""
    if not is_run(member.folder):
        try:
            with Run.create(member.folder, member.recipe):
                return None
        except UserError as error:
            raise UserError(error.message, "--out OTHER takes another folder") from None
    lock = FileLock(member.folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:  # the child of a comparison that was killed, say
        say(f"waiting for the process that trains {member.folder} to save its step")
        lock.acquire(poll_interval=0.2)
    try:
        if is_unused(member.folder):  # the command may have been mended since
            (member.folder / "environment.json").unlink(missing_ok=True)
            write_text(member.folder / "recipe.toml", to_toml(member.recipe))
            return None
        return _summary(member.folder) or _damage(member.folder) or {}
    finally:
        lock.release()


def _summary(folder: Path) -> Result | None:
    """The summary of a run; None where there is none yet."""
    path = folder / "summary.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and found:
            return found  # pyright: ignore[reportUnknownVariableType]
    except FileNotFoundError:
        return None
    except (ValueError, OSError):
        pass
    return f"{path} is damaged; rm {path} has it made again"


def _damage(folder: Path) -> str | None:
    """What is wrong with the files that an unfinished run goes on from, beside its checkpoints."""
    for name in ("eval/before.json", "metrics.jsonl", "timings.jsonl"):
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]  # a kill may tear the last line
            for part in whole.splitlines() if path.suffix == ".jsonl" else [text]:
                json.loads(part)
        except FileNotFoundError:
            continue
        except ValueError:
            return f"{path} is damaged; rm -r {folder} trains it again"
    return None


def _in_turn(
    todo: Sequence[tuple[str, Member]],
    watcher: Watch,
    say: Callable[[str], None],
    threads: int | None,
) -> Iterator[tuple[str, Member, Result]]:
    for place, member in todo:
        say(place)
        run, _ = Run.open(member.folder)
        recipe = with_threads(member.recipe, threads)
        with run, watcher(member.recipe, member.folder) as watch:
            try:
                result: Result = launch(run, recipe, watch, watch.attach)
            except InterruptedRunError as error:
                raise InterruptedRunError(f"{place}. {error.message}", GOES_ON) from error
            except UserError as error:
                result = error.message
            except Exception as error:  # a method's, a verifier's: the other runs go on
                if isinstance(error, OSError) and error.errno in FULL:
                    raise full(error.filename or member.folder) from error
                result = told(error)
        yield place, member, result


def told(error: Exception) -> str:
    """An exception that is none of ours, in a line, as the end of a traceback has it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@dataclass(frozen=True)
class _Child:
    """A run in a process of its own; what it says goes to the end of its log."""

    place: str
    member: Member
    process: subprocess.Popen[bytes]
    started: float
    heard: int
    """Bytes of the log from before."""


def _side_by_side(
    todo: Sequence[tuple[str, Member]],
    say: Callable[[str], None],
    jobs: int,
    threads: int | None,
) -> Iterator[tuple[str, Member, Result]]:
    """Each run in a process of its own, `jobs` of them at a time."""
    waiting = list(todo)
    running: list[_Child] = []
    with finish_step_on_interrupt(say) as interrupted:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not interrupted():
                    place, member = waiting.pop(0)
                    say(place)
                    running.append(_start(place, member, threads))
                if interrupted():
                    _stop(running)
                    raise InterruptedRunError(
                        "Interrupted: every run finished and saved the step in flight.", GOES_ON
                    )
                time.sleep(0.2)
                for child in [child for child in running if child.process.poll() is not None]:
                    running.remove(child)
                    result = _result(child)
                    if not isinstance(result, str):
                        took = duration(time.monotonic() - child.started)
                        say(f"{child.place}: finished in {took}")
                    elif result.startswith(NO_SPACE):
                        raise full(child.member.folder)
                    yield child.place, child.member, result
        finally:
            _stop(running)


def _start(place: str, member: Member, threads: int | None) -> _Child:
    """In a session of its own: Ctrl-C reaches it through this process alone. Its stdin is a pipe
    that ends with this process, and it with that."""
    more = ["--threads", str(threads)] if threads else []
    with (member.folder / "log.txt").open("ab") as log:
        heard = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ictcli.compare.child", str(member.folder), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    return _Child(place, member, process, time.monotonic(), heard)


def _stop(running: list[_Child]) -> None:
    """Have every process save its step and end."""
    for child in running:
        if child.process.poll() is None:
            child.process.terminate()  # a shell's background jobs ignore SIGINT
    for child in running:
        child.process.wait()
        _close(child)
    running.clear()


def _close(child: _Child) -> None:
    if child.process.stdin:
        child.process.stdin.close()


def _result(child: _Child) -> Result:
    _close(child)
    known = _summary(child.member.folder)
    if known is not None:
        return known
    said = b""
    with contextlib.suppress(OSError), (child.member.folder / "log.txt").open("rb") as log:
        log.seek(child.heard)
        said = log.read()
    return reason(said.decode(errors="replace"), child.process.returncode)


def reason(said: str, code: int) -> str:
    """Why a process ended, from what it wrote to stderr and its exit code: its own sentence, the
    last line of its traceback, or the signal that killed it."""
    told = [match.end() for match in re.finditer(r"^error: ", said, re.M)][-1:]
    traced = [match.end() for match in re.finditer(r"^Traceback .*:\n", said, re.M)][-1:]
    if told > traced:
        return said[told[0] :].partition("\n\n")[0].strip()
    if traced:
        lines = said[traced[0] :].splitlines()
        if ends := [line for line in lines if line and not line.startswith(" ")]:
            return ends[0]
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"it was killed ({name})" + (
            ", perhaps for want of memory" if -code == signal.SIGKILL else ""
        )
    lines = [line for line in said.splitlines() if line.strip()]
    return f"it ended with code {code}" + (f": {lines[-1].strip()}" if lines else "")
