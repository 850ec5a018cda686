"""ictcli export: a run's adapters and the model below them, as one model."""

from __future__ import annotations

from pathlib import Path

import click

from ictcli.cli.train import BACKENDS


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The folder to make. [RUN/model]")
@click.option("--packed", is_flag=True, help="Pack a quantised model's weights again, as its own.")
@click.option("--checkpoint", metavar="best|STEP", help="Of a checkpoint, not the last weights.")
@click.option("--backend", type=BACKENDS, help="Which engine runs the model.")
def command(
    run: Path, out: Path | None, packed: bool, checkpoint: str | None, backend: str | None
) -> None:
    """Fuse the adapters of RUN, or take a checkpoint of it: a whole model, in Hugging Face layout.

    The model computes what the run trained: weights of 4 or 8 bits are unpacked. With --packed they
    are rounded again, which makes the file small and may round what was trained away.

    \b
    ictcli export runs/mine
    ictcli export runs/mine --out mine-4bit --packed
    ictcli export runs/mine --checkpoint best
    """
    from ictcli.checkpoints import engine_at, pick
    from ictcli.console import narrate
    from ictcli.engine import build_engine
    from ictcli.errors import UserError
    from ictcli.files import new_folder
    from ictcli.recipe import load_recipe
    from ictcli.runs import is_run

    if not is_run(run):
        raise UserError(f"{run} is not a run folder: it has no recipe.toml.", "ictcli export RUN")
    saved = pick(run, checkpoint) if checkpoint else None
    made = out or run / (f"model-{saved.name}" if saved else "model")
    if made.exists():
        raise UserError(f"{made} exists already.", "--out OTHER makes another folder")
    settings = load_recipe(run / "recipe.toml").engine
    if backend:
        settings = settings.model_copy(update={"backend": backend})
    if saved:
        engine = engine_at(run, saved, settings)
    else:
        adapter = run / "adapter"  # also where a model was made of it before
        engine = build_engine(str(adapter if adapter.is_dir() else run), settings)
    with new_folder(made) as folder:
        engine.export(folder, packed=packed)
    click.echo(made)
    narrate(f"next: ictcli eval {made}")
