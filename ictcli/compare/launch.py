"""Train every run of a comparison, each in a separate process; finished runs are kept."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from filelock import Timeout

from ictcli.compare.design import RunSpec, is_unused
from ictcli.compare.folder import GOES_ON, OTHER, full
from ictcli.errors import InterruptedRunError, UserError
from ictcli.evaluation.record import Evaluation
from ictcli.files import appended, gate, lock_of, new_file
from ictcli.files.reading import lines, read_bytes
from ictcli.runs import Run, is_run, manifest
from ictcli.runs.read import read_record
from ictcli.runs.records import Failure, Summary
from ictcli.tables.numbers import counted
from ictcli.text import duration, shell_word
from ictcli.train.launch import NO_SPACE, finish_step_on_interrupt

BEFORE = Path("eval", "before.json")
OF_TRAINING = {
    *("method", "steps", "lr", "keep", "warmup", "control"),
    *("kl", "entropy", "clip", "update", "optimizer"),
}
"""Keys of a recipe that what is sampled and judged before training does not depend on."""
Summaries = dict[Path, Summary]
"""Summaries of finished runs, by folder."""
Outcome = Summary | str
"""The summary of a run, or the sentence that says why there is none."""
Process = subprocess.Popen[bytes]
Running = dict[Process, tuple[str, RunSpec, float]]
"""By process: what is said of its run, the run, and when it started."""


def train_all(
    runs: Sequence[RunSpec],
    say: Callable[[str], None],
    show: Callable[[str], None],
    *,
    jobs: int = 1,
    threads: int | None = None,
    later: int = 0,
) -> tuple[Summaries, list[str]]:
    """Train the runs that are not finished, each in a separate process, `jobs` at a time. Returns
    summaries by folder, and a sentence for each run that failed; the other runs continue. `threads`
    limits the threads of each run. After each run `say` gets how long the rest will take, with
    `later` runs of another call; `show` gets where the running ones are. Raises InterruptedRunError
    at Ctrl-C, after every run has saved, and RunFailedError when the disk is full."""
    summaries: Summaries = {}
    failed: list[str] = []
    finished: list[RunSpec] = []

    def finish(place: str, spec: RunSpec, outcome: Outcome) -> None:
        if not isinstance(outcome, str):
            summaries[spec.folder] = outcome
            finished.append(spec)
            return
        if outcome.startswith(NO_SPACE):
            raise full(spec.folder)
        failed.append(f"{place}: {outcome}")
        say(f"failed: {failed[-1]}")

    todo: list[tuple[str, RunSpec]] = []
    for number, spec in enumerate(runs, 1):
        place = f"run {number}/{len(runs)}: {spec.name}"
        begun, outcome = _earlier(spec, say)
        if outcome is None:
            todo.append((place + ", continued" * begun, spec))
            continue
        if not isinstance(outcome, str):
            say(place + ", finished before")
        finish(place, spec, outcome)
    started = time.monotonic()
    trained = _trained(todo, say, show, finished, jobs, threads)
    for number, (place, spec, outcome) in enumerate(trained, 1):
        finish(place, spec, outcome)
        if left := len(todo) - number + later:
            pace = (time.monotonic() - started) / number
            say(f"{counted(left, 'run')} left, about {duration(pace * left)} in all")
    return summaries, failed


def _earlier(spec: RunSpec, say: Callable[[str], None]) -> tuple[bool, Outcome | None]:
    """Return whether an earlier command began a run, and its outcome: a summary, or a sentence if a
    file is damaged; None if the run is new or unfinished."""
    if not is_run(spec.folder):
        try:
            with Run.create(spec.folder, spec.recipe):
                return False, None
        except UserError as error:
            raise UserError(error.message, OTHER) from None
    lock = lock_of(spec.folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:  # the child of a comparison that was killed, say
        say(f"waiting for the process that trains {spec.folder} to save its step")
        lock.acquire(poll_interval=0.2)
    try:
        if is_unused(spec.folder):  # the command may have been fixed since
            (spec.folder / "environment.json").unlink(missing_ok=True)
            manifest.leave(spec.folder, "environment.json")
            Run(spec.folder).write_recipe(spec.recipe)
            return False, None
        return True, read_summary(spec.folder)
    finally:
        lock.release()


def read_summary(folder: Path) -> Outcome | None:
    """Return the summary of a run; None where there is none yet."""
    path = folder / "summary.json"
    if not path.exists():
        return None
    damage = f"{path} is damaged; rm {shell_word(path)} has it made again"
    return read_record(path, Summary, strict=False) or damage


def _trained(
    todo: Sequence[tuple[str, RunSpec]],
    say: Callable[[str], None],
    show: Callable[[str], None],
    finished: Sequence[RunSpec],
    jobs: int,
    threads: int | None,
) -> Iterator[tuple[str, RunSpec, Outcome]]:
    waiting = list(todo)
    running: Running = {}
    with finish_step_on_interrupt(lambda text: say(f"note: {text}")) as interrupted:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not interrupted():
                    following = _next(waiting, running)
                    if following is None:
                        break
                    place, spec = following
                    waiting.remove(following)
                    say(place)
                    share_beginning(spec, [*finished, *(each for _, each, _ in running.values())])
                    running[_start(spec, threads)] = place, spec, time.monotonic()
                if interrupted():
                    _stop(running)
                    raise InterruptedRunError(
                        "Interrupted: every run finished and saved the step in flight.", GOES_ON
                    )
                time.sleep(0.2)
                show(
                    "; ".join(f"{place}, {_progress(spec)}" for place, spec, _ in running.values())
                )
                for process in [each for each in running if each.poll() is not None]:
                    place, spec, started = running.pop(process)
                    process.communicate()  # closes its stdin
                    why = why_it_ended(spec.folder, process.returncode)
                    outcome = read_summary(spec.folder) or why
                    if not isinstance(outcome, str):
                        say(f"{place}: finished in {duration(time.monotonic() - started)}")
                    yield place, spec, outcome
        finally:
            show("")
            _stop(running)


def _next(waiting: Sequence[tuple[str, RunSpec]], running: Running) -> tuple[str, RunSpec] | None:
    """Return the first run whose evaluation before training none of the running ones is making now,
    so that each is made once; None where there is none."""
    making = [
        _beginning(spec) for _, spec, _ in running.values() if not (spec.folder / BEFORE).exists()
    ]
    for place, spec in waiting:
        if (spec.folder / BEFORE).exists() or _beginning(spec) not in making:
            return place, spec
    return None


def _progress(spec: RunSpec) -> str:
    """Return how far a running run is."""
    try:
        done = sum(1 for _ in lines(spec.folder / "metrics.jsonl"))
    except OSError:
        done = 0
    return f"step {done}/{spec.recipe.steps}"


def _start(spec: RunSpec, threads: int | None) -> Process:
    """Start `ictcli resume` in a new session: Ctrl-C reaches it through this process alone. Its
    stdin is a pipe that nobody writes to; the pipe closes when this process ends, however it ends,
    and the child then saves its step and ends too."""
    command = [sys.executable, "-m", "ictcli", "resume", str(spec.folder), "--json"]
    command += ["--end-with-stdin", *(["--threads", str(threads)] if threads else [])]
    (spec.folder / "failure.json").unlink(missing_ok=True)  # of an earlier sitting
    with appended(spec.folder / "log.txt") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            env=gate.environment(),
        )


def _stop(running: Running) -> None:
    for process in running:
        if process.poll() is None:
            process.terminate()  # a shell's background jobs ignore SIGINT
    for process in running:
        process.communicate()
    running.clear()


def why_it_ended(folder: Path, code: int) -> str:
    """Return why the process of a run ended: the sentence of its failure.json, else the signal that
    killed it or its exit code."""
    if failure := read_record(folder / "failure.json", Failure, strict=False):
        return failure.error
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        memory = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"it was killed ({names.get(-code, f'signal {-code}')}){memory}"
    return f"it ended with code {code}; {folder / 'log.txt'} has what it said"


def share_beginning(spec: RunSpec, others: Sequence[RunSpec]) -> None:
    """Copy the evaluation before training into a run that begins as one of `others` that made it;
    nothing if it has its own. The record is copied last: without it, samples do not count."""
    beginning = _beginning(spec)
    same = (other.folder for other in others if _beginning(other) == beginning)
    lender = next((folder for folder in same if (folder / BEFORE).exists()), None)
    if lender is None or (spec.folder / BEFORE).exists():
        return
    if read_record(lender / BEFORE, Evaluation, strict=False) is None:
        return  # damaged: the run makes its own
    (spec.folder / BEFORE).parent.mkdir(exist_ok=True)
    names = [f"eval/{path.name}" for path in sorted((lender / "eval").glob("before*.jsonl"))]
    for name in (*names, BEFORE.as_posix()):
        with new_file(spec.folder / name) as beside:
            beside.write_bytes(read_bytes(lender / name))
    manifest.enter(spec.folder, *names, BEFORE.as_posix())


def _beginning(spec: RunSpec) -> dict[str, object]:
    return spec.recipe.model_dump(exclude=OF_TRAINING)
