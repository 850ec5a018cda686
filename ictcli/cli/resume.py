"""ictcli resume: continue a run from its last checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from ictcli.cli.process import process_options


@click.command("resume")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@process_options
def command(folder: Path, as_json: bool, threads: int | None) -> None:
    """Continue RUN from its last checkpoint, exactly as if it had never stopped."""
    from ictcli.console import narrate, report, watcher
    from ictcli.recipe import with_threads
    from ictcli.runs import Run
    from ictcli.train.evaluations import finished
    from ictcli.train.launch import launch

    run, recipe = Run.open(folder)
    with run:
        summary = finished(run, recipe, narrate)
        if summary is not None:
            narrate(f"{folder} is finished: {summary['steps']} steps.")
        else:
            recipe = with_threads(recipe, threads)
            with watcher(recipe, folder, live=not as_json) as watch:
                summary = launch(run, recipe, watch, watch.attach)
    report(summary, folder, as_json=as_json)
