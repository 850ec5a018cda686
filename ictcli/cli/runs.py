"""ictcli runs: list, show and compare runs, and remove old checkpoints."""

from pathlib import Path

import click

from ictcli.cli import JSON, RUN
from ictcli.errors import UserError
from ictcli.files import check_inside


@click.group("runs")
def command() -> None:
    """List, show, compare and check runs; remove old checkpoints."""


@command.command("ls")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@JSON
def ls(folder: Path | None, as_json: bool) -> None:
    """List the runs in FOLDER, the most recently changed last.

    FOLDER defaults to runs/ or, if that does not exist, to the working directory.

    \b
    ictcli runs ls
    ictcli runs ls runs/compare-chain-compare --json
    """
    from ictcli.console.runs import print_list
    from ictcli.runs.list import RUNS, existing, find_runs, list_runs

    if folder is None:  # search only two levels deep: this may be a home directory
        folder = Path() if not RUNS.is_dir() and any(find_runs(Path(), 2)) else RUNS
    folder = existing(folder) or folder
    if not folder.is_dir():
        hint = "ictcli runs ls FOLDER lists another folder; ictcli train quickstart makes a run"
        raise UserError(f"There is no folder {folder}.", hint)
    print_list(list_runs(folder), folder, as_json=as_json)


@command.command("show")
@click.argument("run", **RUN)
@JSON
def show(run: Path, as_json: bool) -> None:
    """Show a run in full: recipe, progress, results, size."""
    from ictcli.console.runs import print_run
    from ictcli.runs.show import detail

    print_run(detail(_run_folder(run)), as_json=as_json)


@command.command("diff")
@click.argument("runs", metavar="A B [C]...", nargs=-1, **RUN)
@JSON
def diff(runs: tuple[Path, ...], as_json: bool) -> None:
    """Compare the recipes, environments and results of runs.

    Runs that were evaluated on the same problems are compared problem by problem.

    \b
    ictcli runs diff runs/quickstart-ict-s0 runs/quickstart-grpo-s0
    """
    from ictcli.console.runs import print_diff
    from ictcli.runs.diff import difference

    if len(runs) < 2:
        raise UserError("`ictcli runs diff` needs two runs.", "ictcli runs diff RUN OTHER")
    print_diff(difference([_run_folder(run) for run in runs]), as_json=as_json)


@command.command("check")
@click.argument("run", **RUN)
@JSON
def check(run: Path, as_json: bool) -> int:
    """Compare a run's files and checkpoints with their checksums.

    The exit code is 1 if a file is damaged, altered or missing.
    """
    from ictcli.console.runs import print_check
    from ictcli.runs.show import check_run

    result = check_run(_run_folder(run))
    print_check(result, as_json=as_json)
    return 1 if result.faults else 0


@command.command("gc")
@click.argument("runs", metavar="[RUN]...", nargs=-1, **RUN)
@click.option("--finished", is_flag=True, help="Of finished runs keep only the best checkpoint.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and stop.")
@JSON
def gc(runs: tuple[Path, ...], finished: bool, dry_run: bool, as_json: bool) -> None:
    """Remove old checkpoints of RUNs, or of every run in runs/.

    The newest undamaged checkpoint, from which a run can be resumed, and the best are kept. With
    --finished, finished runs keep only the best, and cannot be trained further.

    \b
    ictcli runs gc --dry-run
    ictcli runs gc quickstart-ict-s0 --finished
    """
    from ictcli.console.lines import narrate
    from ictcli.console.runs import print_old
    from ictcli.runs.checkpoints import old_checkpoints, remove_checkpoints
    from ictcli.runs.list import RUNS, find_run, find_runs
    from ictcli.runs.read import in_use, size

    places = [find_run(name) for name in runs] or [RUNS]
    idle, busy = dict[Path, None](), dict[Path, None]()
    for run in (run for place in places for run in find_runs(place)):
        try:
            check_inside(run)
        except UserError as error:
            narrate(f"note: {error.message}")
        else:
            (busy if in_use(run) else idle)[run] = None
    old = {path: size(path) for run in idle for path in old_checkpoints(run, finished=finished)}
    if not dry_run:
        remove_checkpoints(old)
    print_old(old, list(busy), removed=not dry_run, as_json=as_json)


def _run_folder(name: Path) -> Path:
    """Return the folder of a run, which may be damaged. UserError if there is no such run."""
    from ictcli.runs.list import find_run, find_runs

    run = find_run(name)
    if list(find_runs(run, 0)) != [run]:
        group = f" {run}" if run.is_dir() and any(find_runs(run)) else ""
        hint = f"ictcli runs ls{group} lists the runs"
        raise UserError(f"{run} is not a run folder.", hint)
    return run
