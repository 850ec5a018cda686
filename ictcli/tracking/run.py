"""The trackers of a run: started when its folder is restored, so that a refused run leaves nothing.
No step waits for one; the end of a run waits some seconds."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator

from ictcli.files import appended
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.public import public_environment, public_recipe
from ictcli.runs.read import read_environment
from ictcli.tracking import About

CLOSE_TIMEOUT = 15.0


@contextlib.contextmanager
def tracked(
    run: Run, recipe: Recipe, warn: Callable[[str], None]
) -> Generator[Callable[[int], None]]:
    """Within, the function that is yielded starts the trackers of a run that is at this step."""
    workers: list[Worker] = []

    def start(step: int) -> None:
        supervised = recipe.sft.steps if recipe.sft.data else 0
        about = About(
            folder=run.folder.resolve(),
            done=step,
            steps=supervised + recipe.steps,
            supervised=supervised,
            recipe=public_recipe(recipe.model_dump(mode="json", exclude_none=True)),
            environment=public_environment(read_environment(run.folder)),
        )
        workers.extend(Worker(name, about, warn) for name in dict.fromkeys(recipe.log))

    try:
        yield start
    finally:
        until = time.monotonic() + CLOSE_TIMEOUT
        for worker in workers:
            worker.finish()
        for worker in workers:
            worker.close(until)


class Worker:
    """One tracker's process (`ictcli.tracking.worker`), which reads the run's files."""

    def __init__(self, name: str, about: About, warn: Callable[[str], None]) -> None:
        self._name, self._warn = name, warn
        self._failed = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            log = about.folder / "tracking" / f"{name}.log"
            log.parent.mkdir(exist_ok=True)
            with appended(log) as output:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "ictcli.tracking.worker", name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    bufsize=0,
                    start_new_session=True,  # no Ctrl-C; can be killed with its children
                )
        except Exception as error:
            self._fail(str(error))
            return
        self._reader = threading.Thread(target=self._read, args=[process], daemon=True)
        self._reader.start()
        with contextlib.suppress(OSError):  # it says itself why it ended
            assert process.stdin
            process.stdin.write(about.model_dump_json().encode() + b"\n")

    def finish(self) -> None:
        """Say that the run is over."""
        if self._process and self._process.stdin:
            self._process.stdin.close()

    def close(self, until: float) -> None:
        """Let the tracker finish until `time.monotonic()` reaches this, then kill it."""
        if (process := self._process) is None:
            return
        try:
            process.wait(0.5 if self._failed else max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._fail(f"it did not finish within {CLOSE_TIMEOUT:g} s and was ended")
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        self._reader.join(1.0)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        line = process.stdout.readline().decode() or "its process ended"
        if reason := line.rstrip("\n"):
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        if not self._failed:
            self._failed = True
            self._warn(
                f"{self._name} does not log this run ({reason.rstrip('.')}); training goes on, "
                "and metrics.jsonl has all figures."
            )
