"""Options that several commands have: the engine, trust in a run's code, and those of the process,
--nice, --threads and --awake, which processes started later inherit.
"""

import contextlib
import functools
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from ictcli.cli import completion

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
    *(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")),
    "VECLIB_MAXIMUM_THREADS",
)
"""Read by array and tokenizer libraries when they are loaded."""


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A click callback that refuses nan and inf."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


def _trust(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from ictcli.files import gate

        gate.trust_all()


TRUST = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Run code that the run's recipe names: its plugins, verifier, model.",
)
"""`ictcli.files.gate` lets the code of every run of this command run."""


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
    from ictcli.console.lines import narrate

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


# The engine, and KEY=VALUE

OURS = ("torch", "mlx")
SETTING = re.compile(r"[a-z_]+(\.[\w-]+)*\s*=")


def engine_names() -> tuple[str, ...]:
    """`auto`, our engines, and those that installed packages add."""
    added = sorted(point.name for point in entry_points(group="ictcli.engines"))
    return tuple(dict.fromkeys(("auto", *OURS, *added)))


def _check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else click.Choice(engine_names()).convert(value, param, ctx)


BACKEND = click.option(
    "--backend",
    callback=_check,
    metavar="[auto|torch|mlx|...]",
    shell_complete=completion.engines,
    help="Which engine runs the model.",
)


def engine_settings(backend: str | None, threads: int | None = None) -> list[str]:
    """The options as KEY=VALUE of a recipe."""
    options = {"engine.backend": backend, "engine.threads": threads}
    return [f"{key}={value}" for key, value in options.items() if value]


def split_settings(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments that are KEY=VALUE, and the others. A folder may have such a name too."""
    settings = [each for each in arguments if SETTING.match(each) and not Path(each).exists()]
    return settings, [argument for argument in arguments if argument not in settings]
