"""ictcli check: try a recipe before hours are spent on it."""

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
    help="Time limit: the model answers as many problems as it can.",
)
@BACKEND
@json_option(help="Print what was found as JSON.")
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
    """Try a training for a minute before you spend hours on it.

    It reads the data, shows prompts as the model sees them, lets the model answer some, shows what
    is read of each answer, and says what the training takes. It ends in a verdict and the command
    to type. The exit code is 4 where the verdict is not to train yet. Nothing is written.

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
    kept = [each for each in overrides if typed_key(each) not in changed]
    options = {"backend": backend, "threads": threads}
    engine = [f"--{name}={value}" for name, value in options.items() if value]
    verb = "train" if checked.ready else "check"
    longer = any(change.startswith("--seconds") for change in checked.changes)
    if verb == "check" and seconds != SECONDS and not longer:
        engine.append(f"--seconds={seconds:g}")
    words = ["ictcli", verb, recipe, *kept, *checked.changes, *engine]
    new = checked.ready or checked.changes  # else it is what was typed
    print_check(checked, shlex.join(words) if new else "", as_json=as_json)
    if checked.tried and checked.tried.interrupted:
        return 130
    return 0 if checked.ready else NothingLearnedError.exit_code
