"""Options that several commands have: the engine, trust in a run's code, and --threads."""

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]
THREAD_VARIABLES = (
    *(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")),
    "VECLIB_MAXIMUM_THREADS",
)
"""Read by array and tokenizer libraries when they are loaded."""


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
    """Give a command `--threads`, which is in force before array libraries are imported and for
    processes that are started later."""

    @click.option(
        "--threads",
        type=click.IntRange(1, 1024),
        help="Maximum of CPU threads; may change the last bits of figures.",
    )
    @functools.wraps(command)
    def called(*, threads: int | None, **options: Any) -> Any:
        if threads:
            os.environ |= dict.fromkeys(THREAD_VARIABLES, str(threads))
        return command(threads=threads, **options)

    return called


# The engine, and KEY=VALUE

SETTING = re.compile(r"[a-z_]+(\.[\w-]+)*\s*=")


BACKEND = click.option(
    "--backend",
    type=click.Choice(["auto", "torch", "mlx"]),
    help="Engine that runs the model.",
)


def engine_settings(backend: str | None, threads: int | None = None) -> list[str]:
    """Return the options as KEY=VALUE of a recipe."""
    options = {"engine.backend": backend, "engine.threads": threads}
    return [f"{key}={value}" for key, value in options.items() if value]


def split_settings(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that are KEY=VALUE, and the others, as folders of such names."""
    settings = [each for each in arguments if SETTING.match(each) and not Path(each).exists()]
    return settings, [argument for argument in arguments if argument not in settings]
