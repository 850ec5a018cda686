"""ictcli export: what a run trained as a folder for others, with a card."""

from pathlib import Path
from typing import Literal

import click

from ictcli.cli import CHECKPOINT, RUN
from ictcli.cli.options import BACKEND, TRUST

TO = ("hf", "mlx", "ollama")


@click.command("export", short_help="Make a folder of what RUN trained, with a card.")
@click.argument("run", **RUN)
@click.option("--merge", is_flag=True, help="Fuse adapters into a whole model.")
@click.option("--to", "layout", type=click.Choice(TO), help="For which library or program.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder to make.")
@CHECKPOINT
@BACKEND
@TRUST
def command(
    run: Path,
    merge: bool,
    layout: Literal["hf", "mlx", "ollama"] | None,
    out: Path | None,
    checkpoint: str | None,
    backend: str | None,
) -> None:
    """Make a folder of what RUN trained, with a card that says how: its adapters, or its model.

    --to writes adapters for peft (hf) or for mlx-lm (mlx). --merge makes a whole model of them and
    of the model below, which computes what the run trained: in float16 or, where that does not hold
    the weights, float32; weights of 4 or 8 bits are unpacked. --to ollama makes a whole model
    with a Modelfile. The folder is RUN/model for a whole model of adapters, else RUN/export, with
    -step-N for --checkpoint.

    \b
    ictcli export runs/mine --merge
    ictcli export runs/mine --to hf --out mine-peft
    ictcli export runs/mine --to ollama --out mine-ollama
    ictcli export runs/mine --checkpoint best
    """
    from ictcli.console.lines import narrate, output, warn_altered
    from ictcli.errors import UserError
    from ictcli.export import make
    from ictcli.export.card import ollama_name
    from ictcli.runs import is_run
    from ictcli.runs.list import find_run
    from ictcli.text import command as typed
    from ictcli.text import shell_word

    run = find_run(run)
    if not is_run(run):
        raise UserError(
            f"{run} is not a run folder: it has no recipe.toml.",
            "ictcli runs ls lists the runs there are",
        )
    warn_altered(run, "*.json", "recipe.toml", "eval/*.json", "model/*", "adapter/*")
    trained = make.trained_by(run, checkpoint, backend)
    merge = merge or layout == "ollama"
    adapters = trained.recipe.adapters
    whole = merge or adapters is None
    made = out or trained.place(merge=merge)
    if made.exists():
        raise UserError(f"{made} exists already.", "remove it first, or --out OTHER")
    if adapters is None and layout and not merge:
        narrate(f"note: {run} trained all weights: it has no adapters, and a whole model is made.")
    narrate(f"exporting {run} to {made}")
    if whole:
        note, kept = make.export_model(trained, made, layout)
        if note:
            narrate(f"note: {note}")
    else:
        kept = make.export_adapters(trained, made, layout)
    narrate(f"{'warning' if kept.low else 'note'}: {kept.sentence} {kept.reason}".rstrip())
    more = {"checkpoint": checkpoint, "backend": backend}
    if kept.low and whole and adapters:
        narrate(f"hint: {typed('export', run, to='hf', **more)} has the adapters as they are")
    output(made)
    if not whole:
        narrate(f"a whole model: {typed('export', run, merge=True, **more)}")
    then = typed("eval", run, made, checkpoint=checkpoint)
    if layout == "ollama":
        name = ollama_name(run.name, trained.step)
        then = f"ollama create {name} -f {shell_word(made / 'Modelfile')}"
    narrate(f"next: {then}")
