"""ictcli resume: continue a run from its last checkpoint."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import click

from ictcli.cli import RUN, json_option
from ictcli.cli.options import TRUST, process_options

GRACE_S = 4.0
"""Seconds that a run has to save its step after the comparison that started it has ended."""


@click.command("resume")
@click.argument("folder", metavar="RUN", **RUN)
@click.argument("overrides", nargs=-1, metavar="[steps=N]")
@json_option(help="Print the summary as JSON.")
@click.option("--end-with-stdin", is_flag=True, hidden=True)  # used by compare --jobs
@TRUST
@process_options
def command(
    folder: Path,
    overrides: tuple[str, ...],
    as_json: bool,
    end_with_stdin: bool,
    threads: int | None,
) -> None:
    """Continue RUN from its last checkpoint.

    The result is exactly that of a run that never stopped. steps=N continues the training to
    step N, even if the run is finished.

    \b
    ictcli resume quickstart-ict-s0
    ictcli resume quickstart-ict-s0 steps=200
    """
    if end_with_stdin:
        end_with(0)
    from ictcli.console.lines import narrate, warn_altered
    from ictcli.console.live import observer
    from ictcli.console.results import report
    from ictcli.recipe import load_recipe
    from ictcli.runs import Run
    from ictcli.runs.list import find_run
    from ictcli.text import command as typed
    from ictcli.train.diagnosis import check_learned
    from ictcli.train.finish import check_keys, check_longer, extend, finished, schedule_note
    from ictcli.train.launch import launch

    folder = find_run(folder)
    warn_altered(folder, "recipe.toml", "environment.json", "summary.json", "eval/before.json*")
    run, began = Run.open(folder)
    check_keys(folder, overrides)
    with run:
        recipe = load_recipe(run.file, overrides) if overrides else began
        check_longer(run, began, recipe)
        longer = recipe.steps > began.steps
        if longer and (note := schedule_note(began, recipe)):
            narrate(f"note: {note}")
        summary = None if longer else finished(run, recipe, narrate)
        if summary is not None:
            more = f"{typed('resume', folder)} steps=N continues the training"
            narrate(f"{folder} is finished: {summary.steps} steps. {more}.")
        else:
            recipe = recipe.with_engine(threads=threads) if threads else recipe
            narrate(f"loading {recipe.data_name}")
            with observer(recipe, folder, live=not as_json) as observing:
                begin = (partial(extend, run, began, recipe.steps),) if longer else ()
                summary = launch(run, recipe, observing, *begin)
    report(summary, folder, recipe, as_json=as_json)
    check_learned(summary)


def end_with(descriptor: int) -> None:
    """End this process when the other end of a pipe is closed: send it SIGTERM, on which it saves
    its step, and exit after `GRACE_S` seconds in any case."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent may have ignored it

    def wait_for_end() -> None:
        while os.read(descriptor, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(130)

    threading.Thread(target=wait_for_end, daemon=True).start()
