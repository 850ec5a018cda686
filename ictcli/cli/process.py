"""The process options of long commands: --nice, --threads and --awake.

Processes started later inherit them: verifiers, trackers, the runs of a comparison.
"""

import contextlib
import functools
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from typing import Any

import click

Command = Callable[..., Any]
NICE = click.option(
    "--nice", default=0, type=click.IntRange(0, 19), help="Lower this process's priority."
)
AWAKE = click.option("--awake", is_flag=True, help="Keep the machine awake.")
THREADS = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    help="Most CPU threads; may change the last bits of figures.",
)
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
"""Read by array and tokenizer libraries when they are loaded."""


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A click callback that refuses nan and inf."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


def _trust(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from ictcli.runs import trust

        trust.trust_all()


TRUST = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Run code that the run's recipe names: its plugins, verifier, model.",
)
"""`ictcli.runs.trust` lets the code of every run of this command run."""


def process_options(command: Command) -> Command:
    """Give a command the three; it is called with `threads` alone, the others are in force."""

    @THREADS
    @NICE
    @AWAKE
    @functools.wraps(command)
    def called(*, nice: int, awake: bool, threads: int | None, **options: Any) -> Any:
        with process_settings(nice, threads, awake):
            return command(threads=threads, **options)

    return called


@contextlib.contextmanager
def process_settings(nice: int, threads: int | None, awake: bool) -> Generator[None]:
    """Apply the options within. Enter before array libraries are imported."""
    if threads:
        os.environ |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    if nice:
        os.nice(nice)
    process = _keep_awake() if awake else None
    try:
        yield
    finally:
        if process is not None:
            process.terminate()
            process.communicate()


def _keep_awake() -> subprocess.Popen[bytes] | None:
    """A process that keeps the machine awake, at most while this one lives; without one a note."""
    if command := keeper():
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                process.wait(0.3)  # it ends at once if refused
            except subprocess.TimeoutExpired:
                return process
    from ictcli.console import narrate

    narrate("note: Nothing here keeps the machine awake; turn its sleep off yourself.")
    return None


def keeper() -> list[str] | None:
    """The command that keeps this machine awake while this process lives, if there is one."""
    if sys.platform == "darwin" and shutil.which("caffeinate"):
        return ["caffeinate", "-i", "-w", str(os.getpid())]
    if sys.platform.startswith("linux") and shutil.which("systemd-inhibit"):
        options = ["--what=idle:sleep", "--who=ictcli", "--why=training", "--mode=block"]
        return ["systemd-inhibit", *options, "cat"]  # cat ends when this process closes its pipe
    return None
