"""ictcli doctor: check this machine."""

from __future__ import annotations

import os
import platform
import shutil

import click

from ictcli import __version__
from ictcli.errors import UserError


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Check this machine: engines, device, memory, disk. Exit code 3 where no engine runs."""
    from ictcli.console import rows

    found = examine()
    rows(found, as_json=as_json)
    engines = [row for row in found if row["check"].startswith("engine")]
    return 0 if any(row["state"] == "ok" for row in engines) else 3


def examine() -> list[dict[str, str]]:
    """Rows of check, state (ok, missing, failed, info) and finding."""
    from ictcli.engine import LIBRARIES, build_engine, choose_backend, is_installed, versions
    from ictcli.recipe.settings import EngineSettings

    rows = [
        _row("ictcli", "info", f"{__version__}, Python {platform.python_version()}"),
        _row("platform", "info", f"{platform.platform()}, {os.cpu_count()} cores"),
        _row("libraries", "info", ", ".join(f"{k} {v}" for k, v in versions().items())),
    ]
    for name in LIBRARIES:
        if not is_installed(name):
            rows.append(_row(f"engine {name}", "missing", f'pip install "ictcli[{name}]"'))
            continue
        try:
            engine = build_engine("builtin:chain", EngineSettings(backend=name))
            about = engine.describe()
            rows.append(_row(f"engine {name}", "ok", f"{about['device']}, {about['dtype']}"))
        except UserError as error:
            rows.append(_row(f"engine {name}", "failed", error.message))
    rows.append(_row("--backend auto", "info", choose_backend("auto")))
    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("HF_DATASETS_OFFLINE")
    rows.append(_row("hub", "info", "offline by environment" if offline else "used when asked"))
    free = shutil.disk_usage(".").free
    rows.append(
        _row("disk", "ok" if free > 1 << 30 else "failed", f"{free / 2**30:.1f} GiB free here")
    )
    return rows


def _row(check: str, state: str, finding: str) -> dict[str, str]:
    return {"check": check, "state": state, "finding": finding}
