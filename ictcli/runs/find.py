"""Runs by name: a path, or what `ictcli runs ls` calls a run in runs/."""

from pathlib import Path

from ictcli.errors import UserError, nearest
from ictcli.files import check_inside
from ictcli.runs.list import find_runs

RUNS = Path("runs")
"""Where `ictcli train` and `ictcli compare` make their folders."""


def find_run(name: Path) -> Path:
    """`find_folder`; UserError too for a run that may not be read (see `check_inside`)."""
    return _checked(find_folder(name))


def _checked(path: Path) -> Path:
    if any(find_runs(path, 0)):
        check_inside(path)
    return path


def find_folder(name: Path) -> Path:
    """The path itself if it exists, else the one in runs/. UserError, with the nearest name, where
    neither exists; whether it is a run is for the caller to see."""
    if path := existing(name):
        return path
    raise UserError(
        f"There is no run {name}, here or in {RUNS}/{_nearest(str(name))}.",
        "ictcli runs ls lists the runs there are",
    )


def find_model(name: str) -> str:
    """The same for a model: hub ids and `builtin:NAME` pass. UserError for a name that is like a
    run's and is none."""
    if ":" in name or Path(name).expanduser().exists():
        _checked(Path(name))
        return name
    if path := existing(Path(name)):
        return str(_checked(path))
    group, slash, _ = name.partition("/")
    near = "" if slash and not (RUNS / group).is_dir() else _nearest(name)
    if near:
        raise UserError(
            f"There is no model or run {name}, here or in {RUNS}/{near}.",
            "ictcli runs ls lists the runs; a model of the hub is OWNER/NAME",
        )
    return name


def existing(name: Path) -> Path | None:
    """The path itself if it exists, else the one in runs/ if that does."""
    return next((path for path in (name, RUNS / name) if path.exists()), None)


def shown(run: Path) -> str:
    """The shortest name that `find_run` takes for a run."""
    if not run.is_relative_to(RUNS):
        return str(run)
    name = run.relative_to(RUNS)
    return str(run if name.exists() else name)


def _nearest(name: str) -> str:
    names = [shown(run) for run in find_runs(RUNS)]
    return nearest(name.removeprefix(f"{RUNS}/"), names)
