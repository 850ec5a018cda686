"""ictcli runs: list runs, show one, set several side by side."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ictcli.cli import help_without_command

JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List runs, show one in full, set several side by side."""
    help_without_command(ctx)


@command.command("ls")
@click.argument("folder", default="runs", type=click.Path(path_type=Path))
@JSON
def ls(folder: Path, as_json: bool) -> None:
    """List every run under FOLDER (runs), the one written to last at the end.

    \b
    ictcli runs ls
    ictcli runs ls runs/compare-chain-compare --json
    """
    from ictcli.errors import UserError
    from ictcli.runs.list import list_runs

    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.", "ictcli train quickstart makes one")
    found = list_runs(folder)
    if as_json:
        click.echo(json.dumps([one.json() for one in found], indent=2, ensure_ascii=False))
        return
    from ictcli.console.runs import listing

    listing(found, folder)


@command.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@JSON
def show(run: Path, as_json: bool) -> None:
    """Show what RUN was asked, where it ran, how far it came, what it reached and takes up."""
    from ictcli.runs.show import detail

    _check(run)
    found = detail(run)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from ictcli.console.runs import shown

    shown(found)


@command.command("diff")
@click.argument("runs", metavar="A B [C]...", nargs=-1, type=click.Path(path_type=Path))
@JSON
def diff(runs: tuple[Path, ...], as_json: bool) -> None:
    """Set runs side by side: what differs in recipe and environment, and what they reached.

    Differences are paired by problem where runs were evaluated on the same ones.

    \b
    ictcli runs diff runs/quickstart-ict-s0 runs/quickstart-grpo-s0
    """
    from ictcli.errors import UserError

    if len(runs) < 2:
        raise UserError("It takes two runs to differ.", "ictcli runs diff RUN OTHER")
    for run in runs:
        _check(run)
    from ictcli.runs.diff import difference

    found = difference(runs)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from ictcli.console.runs_diff import differences

    differences(found)


def _check(run: Path) -> None:
    from ictcli.errors import UserError
    from ictcli.runs.list import find_runs

    if list(find_runs(run, 0)) != [run]:
        raise UserError(f"{run} is not a run folder.", "ictcli runs ls lists the runs there are")
