"""ictcli compare: methods side by side on the same problems and seeds."""

from __future__ import annotations

from pathlib import Path

import click

from ictcli.cli.train import BACKENDS


@click.command("compare")
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    help="Methods, with commas between.",
)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs each.")
@click.option("--backend", type=BACKENDS, help="Which engine runs the model.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs; continued.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    recipe: str,
    overrides: tuple[str, ...],
    methods: str,
    seeds: int,
    backend: str | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Train each method on the same problems, seeds and budget, and print them side by side.

    Stop it whenever you like: the same command continues where it was.

    \b
    ictcli compare chain-compare --seeds 3
    ictcli compare quickstart steps=50 --methods ict,random --seeds 5 --out runs/ict-vs-random
    """
    from ictcli.compare.forks import compare_forks
    from ictcli.compare.runs import members, train_all
    from ictcli.compare.table import rows_of
    from ictcli.console import comparison, narrate, watcher
    from ictcli.engine import build_engine
    from ictcli.errors import RunFailedError, UserError
    from ictcli.files import write_json
    from ictcli.recipe import find_recipe

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise UserError("--methods names no method.", "ictcli methods lists them")
    folder = out or Path("runs") / f"compare-{find_recipe(recipe).stem}"
    extra = [f"engine.backend={backend}"] if backend else []
    runs = members(recipe, [*overrides, *extra], names, seeds, folder)
    summaries, failed = train_all(runs, lambda r, path: watcher(r, path, live=not as_json), narrate)
    if not summaries:
        raise RunFailedError("Every run of the comparison failed.", f"see {folder}")
    engine = build_engine(runs[0].recipe.model, runs[0].recipe.engine)
    forks = compare_forks([m.recipe for m in runs if m.seed == runs[0].seed], engine)
    result = {
        "recipe": recipe,
        "overrides": list(overrides),
        "seeds": [m.seed for m in runs if m.method == runs[0].method],
        "rows": rows_of(summaries),
        "forks": [row.json() for row in forks],
        "failed": failed,
    }
    write_json(folder / "comparison.json", result)
    comparison(result, folder, as_json=as_json)
    return 1 if failed else 0
