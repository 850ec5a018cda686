"""ictcli doctor: check this machine."""

import os
import platform
import shutil

import click

from ictcli import __version__
from ictcli.cli import JSON
from ictcli.cli.options import engine_names
from ictcli.errors import UserError, install


@click.command("doctor")
@JSON
def command(as_json: bool) -> int:
    """Check this machine: engines, device, memory, disk. Exit code 3 if no engine runs."""
    from ictcli.console import narrate, print_records
    from ictcli.engine import choose_backend, versions

    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("HF_DATASETS_OFFLINE")
    free = shutil.disk_usage(".").free
    narrate("Trying each engine.")
    engines = [(f"engine {name}", *_try_engine(name)) for name in engine_names()[1:]]
    rows = [
        ("ictcli", "info", f"{__version__}, Python {platform.python_version()}"),
        ("platform", "info", f"{platform.platform()}, {os.cpu_count()} cores"),
        ("libraries", "info", ", ".join(f"{k} {v}" for k, v in versions().items())),
        *engines,
        ("--backend auto", "info", choose_backend("auto")),
        ("hub", "info", "offline by environment" if offline else "used when asked"),
        ("disk", "ok" if free > 1 << 30 else "failed", f"{free / 2**30:.1f} GiB free here"),
    ]
    heads = ("check", "state", "finding")
    print_records([dict(zip(heads, row, strict=True)) for row in rows], as_json=as_json)
    return 0 if any(state == "ok" for _, state, _ in engines) else 3


def _try_engine(name: str) -> tuple[str, str]:
    """The state and finding of an engine that loads the built-in model."""
    from ictcli.engine import LIBRARIES, build_engine, is_installed
    from ictcli.recipe.tables import EngineSettings

    if not is_installed(name):
        return "missing", install(name)
    try:
        about = build_engine("builtin:chain", EngineSettings(backend=name)).describe()
    except UserError as error:
        return "failed", error.message
    except Exception as error:
        if name in LIBRARIES:
            raise
        return "failed", f"{type(error).__name__}: {error}"  # whatever a package of others raises
    return "ok", f"{about['device']}, {about['dtype']}"
