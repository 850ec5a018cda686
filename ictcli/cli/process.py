"""The process options of commands that take long: --nice, --threads and --awake.

Priority and environment are inherited by every process that is started later: verifiers, trackers,
the runs of a comparison.
"""

from __future__ import annotations

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
    "--nice", default=0, type=click.IntRange(0, 19), help="Let others go first, by so much."
)
AWAKE = click.option("--awake", is_flag=True, help="Keep the machine from falling asleep.")
THREADS = click.option(
    "--threads", type=click.IntRange(1, 1024), help="CPU threads at most; may change last bits."
)


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A callback: click takes nan and inf for numbers."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


def process_options(command: Command) -> Command:
    """Give a command the three; it is called with `threads` alone, the others are in force."""
    return THREADS(nice_and_awake(command))


def nice_and_awake(command: Command) -> Command:
    """The same for a command that has `--threads` already."""

    @NICE
    @AWAKE
    @functools.wraps(command)
    def called(*, nice: int, awake: bool, threads: int | None, **options: Any) -> Any:
        with process_settings(nice, threads, awake, _say):
            return command(threads=threads, **options)

    return called


def _say(text: str) -> None:
    from ictcli.console import narrate

    narrate(f"note: {text}")


THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
"""What the libraries of arrays, and the tokenizers', read when they are loaded."""


def be_nice(by: int, say: Callable[[str], None]) -> None:
    """Let others go first: lower this process's priority by 1 to 19."""
    if hasattr(os, "nice"):
        os.nice(by)
    else:
        say("This system has no nice levels; --nice does nothing here.")


def limit_threads(threads: int) -> None:
    """Have libraries that are not loaded yet take so many CPU threads at most."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)


def keeper() -> list[str] | None:
    """The command that keeps this machine awake while this process lives, if there is one."""
    if sys.platform == "darwin" and shutil.which("caffeinate"):
        return ["caffeinate", "-i", "-w", str(os.getpid())]
    if sys.platform.startswith("linux") and shutil.which("systemd-inhibit"):
        asked = ["--what=idle:sleep", "--who=ictcli", "--why=training", "--mode=block"]
        return ["systemd-inhibit", *asked, "cat"]  # which ends with this process's end of the pipe
    return None


@contextlib.contextmanager
def awake(say: Callable[[str], None]) -> Generator[None]:
    """Within, and until this process is gone, the machine does not fall asleep by itself."""
    command = keeper()
    process = None
    if command is not None:
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.3)  # one that is refused ends at once
    if process is None or process.returncode is not None:
        say("Nothing here keeps the machine awake; turn its sleep off yourself.")
    try:
        yield
    finally:
        if process is not None:
            process.terminate()
            process.communicate()


@contextlib.contextmanager
def process_settings(
    nice: int, threads: int | None, keep_awake: bool, say: Callable[[str], None]
) -> Generator[None]:
    """All of it, as asked for. To be entered before arrays are imported."""
    if threads:
        limit_threads(threads)
    if nice:
        be_nice(nice, say)
    with awake(say) if keep_awake else contextlib.nullcontext():
        yield
