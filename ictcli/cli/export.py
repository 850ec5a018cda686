"""ictcli export: write a run's adapters or model, with a model card, to a folder to share."""

from pathlib import Path
from typing import Literal

import click

from ictcli.cli import CHECKPOINT, RUN
from ictcli.cli.options import BACKEND, TRUST

TO = ("hf", "mlx", "ollama")


@click.command("export", short_help="Write RUN's adapters or model to a folder, with a card.")
@click.argument("run", **RUN)
@click.option("--merge", is_flag=True, help="Merge adapters into the model they were trained on.")
@click.option("--to", "layout", type=click.Choice(TO), help="Library or program to export for.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder to create.")
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
    """Write RUN's adapters or model to a folder to share, with a model card.

    --to writes adapters for peft (hf) or mlx-lm (mlx). --merge merges the adapters into
    their base model and writes a whole model: in float16, or in float32 if float16 cannot hold the
    weights; 4-bit and 8-bit weights are unpacked. --to ollama writes a whole model with a
    Modelfile. The folder is RUN/model for merged adapters, else RUN/export; with --checkpoint its
    name ends in -step-N.

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
            f"{run} is not a run folder: it has no recipe.toml.", "ictcli runs ls lists the runs"
        )
    warn_altered(run, "*.json", "recipe.toml", "eval/*.json", "model/*", "adapter/*")
    trained = make.trained_by(run, checkpoint, backend)
    merge = merge or layout == "ollama"
    adapters = trained.recipe.adapters
    whole = merge or adapters is None
    folder = out or trained.place(merge=merge)
    if folder.exists():
        raise UserError(f"{folder} exists already.", "remove it first, or use --out OTHER")
    if adapters is None and layout and not merge:
        narrate(f"note: {run} trained all weights, not adapters: a whole model is written.")
    narrate(f"exporting {run} to {folder}")
    if whole:
        note, kept = make.export_model(trained, folder, layout)
        if note:
            narrate(f"note: {note}")
    else:
        kept = make.export_adapters(trained, folder, layout)
    narrate(f"{'warning' if kept.low else 'note'}: {kept.sentence} {kept.reason}".rstrip())
    more = {"checkpoint": checkpoint, "backend": backend}
    if kept.low and whole and adapters:
        narrate(f"hint: {typed('export', run, to='hf', **more)} exports the adapters unchanged")
    output(folder)
    if not whole:
        narrate(f"for a whole model: {typed('export', run, merge=True, **more)}")
    then = typed("eval", run, folder, checkpoint=checkpoint)
    if layout == "ollama":
        name = ollama_name(run.name, trained.step)
        then = f"ollama create {name} -f {shell_word(folder / 'Modelfile')}"
    narrate(f"next: {then}")
