"""The options --backend and --threads as settings of an engine."""

import re
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

import click

from ictcli.cli import candidates

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
    shell_complete=candidates.engines,
    help="Which engine runs the model.",
)


def engine_settings(backend: str | None, threads: int | None = None) -> list[str]:
    """The options as KEY=VALUE of a recipe."""
    options = {"engine.backend": backend, "engine.threads": threads}
    return [f"{key}={value}" for key, value in options.items() if value]


def split_settings(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments that are KEY=VALUE, and the others. A folder may have such a name too."""

    def is_setting(argument: str) -> bool:
        return bool(SETTING.match(argument)) and not Path(argument).exists()

    settings = [argument for argument in arguments if is_setting(argument)]
    return settings, [argument for argument in arguments if argument not in settings]
