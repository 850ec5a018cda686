"""Train the runs of a comparison, each in a separate process; finished runs are not repeated."""

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
"""Recipe keys that do not affect the evaluation before training."""
Summaries = dict[Path, Summary]
"""Summaries of finished runs, by folder."""
Outcome = Summary | str
"""The summary of a run, or a message that says why there is none."""
Process = subprocess.Popen[bytes]
Running = dict[Process, tuple[str, RunSpec, float]]
"""For each process: the name of its run in messages, the run, and its start time."""


def train_all(
    runs: Sequence[RunSpec],
    say: Callable[[str], None],
    show: Callable[[str], None],
    *,
    jobs: int = 1,
    threads: int | None = None,
    later: int = 0,
) -> tuple[Summaries, list[str]]:
    """Train the unfinished runs, each in a separate process, `jobs` at a time. Return summaries by
    folder, and a message for each run that failed; the other runs continue. `threads` limits the
    threads of each run. `say` prints messages, among them the time left, which includes `later`
    runs that a further call trains; `show` prints the progress of current runs. Raises
    InterruptedRunError at Ctrl-C, after every run has saved, and RunFailedError if the disk is
    full."""
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
        is_started, outcome = _earlier(spec, say)
        if outcome is None:
            todo.append((place + ", continued" * is_started, spec))
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
    """Return whether an earlier command started the run, and the run's outcome: its summary, or a
    message if the summary is damaged; None if the run is new or unfinished."""
    if not is_run(spec.folder):
        try:
            with Run.create(spec.folder, spec.recipe):
                return False, None
        except UserError as error:
            raise UserError(error.message, OTHER) from None
    lock = lock_of(spec.folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:  # for example by the child of a comparison that was killed
        say(f"waiting for the process that trains {spec.folder} to save its step")
        lock.acquire(poll_interval=0.2)
    try:
        if is_unused(spec.folder):  # the recipe may have been corrected since the failure
            (spec.folder / "environment.json").unlink(missing_ok=True)
            manifest.leave(spec.folder, "environment.json")
            Run(spec.folder).write_recipe(spec.recipe)
            return False, None
        return True, read_summary(spec.folder)
    finally:
        lock.release()


def read_summary(folder: Path) -> Outcome | None:
    """Return the summary of a run, or a message if the file is damaged; None if it is missing."""
    path = folder / "summary.json"
    if not path.exists():
        return None
    damage = f"{path} is damaged; the same command writes it again after: rm {shell_word(path)}"
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
                    share_beginning(spec, [*finished, *(item[1] for item in running.values())])
                    running[_start(spec, threads)] = place, spec, time.monotonic()
                if interrupted():
                    _stop(running)
                    raise InterruptedRunError(
                        "Interrupted: every run finished and saved its current step.", GOES_ON
                    )
                time.sleep(0.2)
                show(
                    "; ".join(f"{place}, {_progress(spec)}" for place, spec, _ in running.values())
                )
                for process in [process for process in running if process.poll() is not None]:
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
    """Return the first waiting run whose evaluation before training is not being computed by a
    running run, so that each evaluation is computed once. None if all runs have to wait."""
    in_progress = [
        _beginning(spec) for _, spec, _ in running.values() if not (spec.folder / BEFORE).exists()
    ]
    for place, spec in waiting:
        if (spec.folder / BEFORE).exists() or _beginning(spec) not in in_progress:
            return place, spec
    return None


def _progress(spec: RunSpec) -> str:
    """Return the number of a run's finished steps as text, such as `step 3/10`."""
    try:
        done = sum(1 for _ in lines(spec.folder / "metrics.jsonl"))
    except OSError:
        done = 0
    return f"step {done}/{spec.recipe.steps}"


def _start(spec: RunSpec, threads: int | None) -> Process:
    """Start `ictcli resume` in a new session, so that only this process receives Ctrl-C. The
    child's stdin is a pipe: when it closes, as this process ends, the child saves and ends too."""
    command = [sys.executable, "-m", "ictcli", "resume", str(spec.folder), "--json"]
    command += ["--end-with-stdin", *(["--threads", str(threads)] if threads else [])]
    (spec.folder / "failure.json").unlink(missing_ok=True)  # of an earlier attempt
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
            process.terminate()  # not SIGINT: background jobs of a shell ignore it
    for process in running:
        process.communicate()
    running.clear()


def why_it_ended(folder: Path, code: int) -> str:
    """Return why the process of a run ended: the message in failure.json if there is one, else the
    signal that killed it or its exit code."""
    if failure := read_record(folder / "failure.json", Failure, strict=False):
        return failure.error
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        memory = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"it was killed ({names.get(-code, f'signal {-code}')}){memory}"
    return f"it ended with exit code {code}; {folder / 'log.txt'} has its messages"


def share_beginning(spec: RunSpec, others: Sequence[RunSpec]) -> None:
    """Copy the evaluation before training from a run of `others` with an equal evaluation, unless
    `spec` has already made its own. before.json is copied last, as samples without it are
    ignored."""
    beginning = _beginning(spec)
    same = (other.folder for other in others if _beginning(other) == beginning)
    source = next((folder for folder in same if (folder / BEFORE).exists()), None)
    if source is None or (spec.folder / BEFORE).exists():
        return
    if read_record(source / BEFORE, Evaluation, strict=False) is None:
        return  # damaged: the run then computes its evaluation itself
    (spec.folder / BEFORE).parent.mkdir(exist_ok=True)
    names = [f"eval/{path.name}" for path in sorted((source / "eval").glob("before*.jsonl"))]
    for name in (*names, BEFORE.as_posix()):
        with new_file(spec.folder / name) as target:
            target.write_bytes(read_bytes(source / name))
    manifest.enter(spec.folder, *names, BEFORE.as_posix())


def _beginning(spec: RunSpec) -> dict[str, object]:
    return spec.recipe.model_dump(exclude=OF_TRAINING)
