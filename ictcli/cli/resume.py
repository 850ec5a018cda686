"""ictcli resume: continue a run from its last checkpoint."""

import os
import signal
import threading
from pathlib import Path

import click

from ictcli.cli.process import process_options


@click.command("resume")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--end-with-stdin", is_flag=True, hidden=True)  # for the processes of compare --jobs
@process_options
def command(folder: Path, as_json: bool, end_with_stdin: bool, threads: int | None) -> None:
    """Continue RUN from its last checkpoint, exactly as if it had never stopped."""
    if end_with_stdin:
        end_with(0)
    from ictcli.console import narrate, observer, report
    from ictcli.runs import Run
    from ictcli.train.finish import finished
    from ictcli.train.launch import launch

    run, recipe = Run.open(folder)
    with run:
        summary = finished(run, recipe, narrate)
        if summary is not None:
            narrate(f"{folder} is finished: {summary.steps} steps.")
        else:
            recipe = recipe.with_engine(threads=threads) if threads else recipe
            with observer(recipe, folder, live=not as_json) as observing:
                summary = launch(run, recipe, observing, observing.attach)
    report(summary, folder, as_json=as_json)


def end_with(descriptor: int) -> None:
    """End this process by SIGTERM when the other end of a pipe is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent may have ignored it

    def wait_for_end() -> None:
        while os.read(descriptor, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end, daemon=True).start()
