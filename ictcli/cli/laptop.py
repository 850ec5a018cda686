"""The options of commands that take long: --nice, --threads and --awake."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
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


def laptop(command: Command) -> Command:
    """Give a command the three; it is called with `threads` alone, the others are in force."""
    return THREADS(considerate(command))


def considerate(command: Command) -> Command:
    """The same for a command that has `--threads` already."""

    @NICE
    @AWAKE
    @functools.wraps(command)
    def called(*, nice: int, awake: bool, threads: int | None, **options: Any) -> Any:
        from ictcli.laptop import considerate

        with considerate(nice, threads, awake, _say):
            return command(threads=threads, **options)

    return called


def _say(text: str) -> None:
    from ictcli.console import narrate

    narrate(f"note: {text}")
