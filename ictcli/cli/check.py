"""ictcli check: try a recipe before hours are spent on it."""

import shlex

import click

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options


@click.command("check")
@click.argument("recipe", shell_complete=completion.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--prompts", default=8, show_default=True, type=click.IntRange(1), help="Problems to answer."
)
@BACKEND
@json_option(help="Print what was found as JSON.")
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    prompts: int,
    backend: str | None,
    as_json: bool,
    threads: int | None,
) -> int:
    """Try a training before hours are spent on it.

    It reads the data, shows prompts as the model sees them, lets the model answer some, grades the
    answers, and says what the training takes. It ends in a verdict and the command to type. The
    exit code is 4 where the verdict is not to train yet. Nothing is written.

    \b
    ictcli check ledger data=examples/own-data/train.csv
    ictcli check qwen2.5-0.5b-lora-gsm8k task=mine.csv eval.bench=mine-test.csv
    """
    from ictcli.console.check import print_check
    from ictcli.console.lines import narrate
    from ictcli.errors import NothingLearnedError
    from ictcli.export.make import merge_base
    from ictcli.recipe import load_recipe, typed_key
    from ictcli.runs.trust import read_typed
    from ictcli.train.check import check

    settings = (*overrides, *engine_settings(backend, threads))
    resolved = load_recipe(read_typed(recipe), settings)
    merge_base(resolved.model, narrate)
    checked = check(resolved, prompts, narrate)
    changed = {*map(typed_key, checked.changes)}
    kept = [each for each in overrides if typed_key(each) not in changed]
    verb, engine = "train" if checked.ready else "check", [f"--backend={backend}"] * bool(backend)
    words = ["ictcli", verb, recipe, *kept, *checked.changes, *engine]
    print_check(checked, shlex.join(words), as_json=as_json)
    return 0 if checked.ready else NothingLearnedError.exit_code
