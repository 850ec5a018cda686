"""ictcli methods: list the methods with their sources."""

from __future__ import annotations

import click


@click.command("methods")
@click.option("--plugin", "plugin_files", multiple=True, help="A .py file that adds methods.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(plugin_files: tuple[str, ...], as_json: bool) -> None:
    """List the methods: what each trains, its options and its source."""
    from ictcli.algorithm.methods import METHODS
    from ictcli.console import rows
    from ictcli.recipe import plugins

    for file in plugin_files:
        plugins.load(file)
    rows(
        [
            {
                "method": method.name,
                "trains": method.summary,
                "mean over": method.normalisation,
                "options": ", ".join(method.options.model_fields) or "-",
                "source": method.source,
            }
            for method in METHODS.values()
        ],
        as_json=as_json,
    )
