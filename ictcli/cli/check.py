"""ictcli check: try a recipe before you train for hours."""

import shlex

import click

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options

SECONDS = 60.0


@click.command("check")
@click.argument("recipe", shell_complete=completion.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--seconds",
    default=SECONDS,
    show_default=True,
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Seconds for the model to answer as many problems as it can.",
)
@BACKEND
@json_option(help="Print the findings as JSON.")
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    seconds: float,
    backend: str | None,
    as_json: bool,
    threads: int | None,
) -> int:
    """Try a recipe for a minute before you train for hours.

    Reads the data, lets the model answer problems, and shows the prompts and how the answers were
    judged. Then it estimates the memory and time of the training, and ends with a verdict and the
    next command. The exit code is 4 if the verdict is not to train yet. No file is written.

    \b
    ictcli check ledger data=examples/own-data/train.csv
    ictcli check qwen3-0.6b-gsm8k task=mine.csv eval.bench=mine-test.csv
    """
    from ictcli.console.check import Shown, print_check
    from ictcli.console.lines import narrate
    from ictcli.errors import NothingLearnedError
    from ictcli.export.make import merge_base
    from ictcli.recipe import load_recipe, typed_key
    from ictcli.runs.trust import read_typed
    from ictcli.train.check import check

    settings = (*overrides, *engine_settings(backend, threads))
    resolved = load_recipe(read_typed(recipe), settings)
    merge_base(resolved.model, narrate)
    checked = check(resolved, seconds, narrate, (lambda part: None) if as_json else Shown())
    changed = {*map(typed_key, checked.changes)}
    kept = [override for override in overrides if typed_key(override) not in changed]
    options = {"backend": backend, "threads": threads}
    engine = [f"--{name}={value}" for name, value in options.items() if value]
    verb = "train" if checked.ready else "check"
    longer = any(change.startswith("--seconds") for change in checked.changes)
    if verb == "check" and seconds != SECONDS and not longer:
        engine.append(f"--seconds={seconds:g}")
    words = ["ictcli", verb, recipe, *kept, *checked.changes, *engine]
    is_new = checked.ready or checked.changes  # else it would be the command just typed
    print_check(checked, shlex.join(words) if is_new else "", as_json=as_json)
    if checked.tried and checked.tried.interrupted:
        return 130
    return 0 if checked.ready else NothingLearnedError.exit_code
