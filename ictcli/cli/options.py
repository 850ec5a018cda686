"""Options that several commands share: --backend, --trust, --threads and KEY=VALUE."""

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
"""Environment variables that array and tokenizer libraries read when they are loaded."""


def _trust(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from ictcli.files import gate

        gate.trust_all()


TRUST = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Run the code that a run's recipe names: plugins, verifier, model code.",
)
"""--trust: `ictcli.files.gate` then runs the code named by the recipe of any run."""


def process_options(command: Command) -> Command:
    """Add the option `--threads` to a command. It sets environment variables before array libraries
    are imported, so that it also applies to subprocesses."""

    @click.option(
        "--threads",
        type=click.IntRange(1, 1024),
        help="Maximum number of CPU threads; may change the last digits of results.",
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
    help="Library that runs the model; auto = the best installed one.",
)


def engine_settings(backend: str | None, threads: int | None = None) -> list[str]:
    """Return the KEY=VALUE overrides of a recipe for the options --backend and --threads."""
    options = {"engine.backend": backend, "engine.threads": threads}
    return [f"{key}={value}" for key, value in options.items() if value]


def split_settings(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into KEY=VALUE settings and others, such as paths that exist."""
    settings = [word for word in arguments if SETTING.match(word) and not Path(word).exists()]
    return settings, [argument for argument in arguments if argument not in settings]
