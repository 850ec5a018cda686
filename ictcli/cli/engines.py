"""The option --backend."""

from importlib.metadata import entry_points

import click

from ictcli.cli import candidates

OURS = ("torch", "mlx")


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
