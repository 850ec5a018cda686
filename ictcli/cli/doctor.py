"""ictcli doctor: check this machine."""

import os
import platform
import shutil

import click

from ictcli import __version__
from ictcli.cli import JSON
from ictcli.errors import UserError, install


@click.command("doctor")
@JSON
def command(as_json: bool) -> int:
    """Check this machine: engines, device, memory, disk. Exit code 3 if no engine runs."""
    from ictcli.console.lines import narrate
    from ictcli.console.table import print_records
    from ictcli.engine import choose_backend, versions

    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("HF_DATASETS_OFFLINE")
    free = shutil.disk_usage(".").free
    narrate("Trying each engine.")
    engines = [(f"engine {name}", *_try_engine(name)) for name in ("torch", "mlx")]
    rows = [
        ("ictcli", "info", f"{__version__}, Python {platform.python_version()}"),
        ("platform", "info", f"{platform.platform()}, {os.cpu_count()} cores"),
        ("libraries", "info", ", ".join(f"{k} {v}" for k, v in versions().items())),
        *engines,
        ("--backend auto", "info", choose_backend("auto")),
        ("hub", "info", "offline, by environment variable" if offline else "used when needed"),
        ("disk", "ok" if free > 1 << 30 else "failed", f"{free / 2**30:.1f} GiB free here"),
    ]
    heads = ("check", "state", "finding")
    print_records([dict(zip(heads, row, strict=True)) for row in rows], as_json=as_json)
    return 0 if any(state == "ok" for _, state, _ in engines) else 3


def _try_engine(name: str) -> tuple[str, str]:
    from ictcli.engine.registry import engine_module, is_installed

    if not is_installed(name):
        return "missing", install(name)
    try:
        return "ok", engine_module(name, "device").found()
    except UserError as error:
        return "failed", error.message
    except Exception as error:  # a library built for another machine may raise anything
        return "failed", f"{type(error).__name__}: {error}"
