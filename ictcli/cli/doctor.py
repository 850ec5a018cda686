"""ictcli doctor: check this machine."""

from __future__ import annotations

import click


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Check this machine: engines, device, memory, disk. Exit code 3 where no engine runs."""
    from ictcli.console import rows
    from ictcli.doctor import examine

    found = examine()
    rows(found, as_json=as_json)
    engines = [row for row in found if row["check"].startswith("engine")]
    return 0 if any(row["state"] == "ok" for row in engines) else 3
