"""ictcli methods: list the training methods with their sources."""

import click

from ictcli.cli import JSON


@click.command("methods")
@JSON
def command(as_json: bool) -> None:
    """List the training methods with their options and sources."""
    from ictcli.algorithm.methods import METHODS
    from ictcli.console.table import print_records

    print_records(
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
