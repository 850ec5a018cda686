"""ictcli eval: pass@k of a model on benchmarks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from ictcli.cli.train import BACKENDS


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not numbers with commas between.") from None


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


@click.command("eval")
@click.argument("model", metavar="MODEL|RUN")
@click.option("--bench", "names", required=True, help="Benchmarks, with commas between.")
@click.option("--n", default=16, show_default=True, type=click.IntRange(1), help="Samples each.")
@click.option("--k", "ks", default="1,4", show_default=True, callback=_numbers, help="pass@k.")
@click.option(
    "--temperature", type=click.FloatRange(0), callback=_finite, help="Default: the run's, else 1."
)
@click.option("--max-tokens", type=click.IntRange(1), help="Instead of the benchmark's own.")
@click.option("--limit", type=click.IntRange(1), help="The first problems only.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--backend", type=BACKENDS, help="Which engine runs the model.")
@click.option("--device", help="auto, cuda, mps or cpu.")
@click.option("--threads", type=click.IntRange(0, 1024), help="CPU threads; 0: as it likes.")
@click.option("--plugin", "plugin_files", multiple=True, help="A .py file that adds benchmarks.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for samples and results.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    model: str,
    names: str,
    n: int,
    ks: tuple[int, ...],
    temperature: float | None,
    max_tokens: int | None,
    limit: int | None,
    seed: int,
    backend: str | None,
    device: str | None,
    threads: int | None,
    plugin_files: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure pass@k of a model folder, a hub id, builtin:chain, or a run.

    \b
    ictcli eval builtin:chain --bench chain,chain-long
    ictcli eval runs/quickstart-ict-s0 --bench chain --n 64 --k 1,4,16
    """
    from ictcli import plugins
    from ictcli.console import EvalProgress, evaluations, narrate
    from ictcli.engine import build_engine
    from ictcli.errors import UserError
    from ictcli.evaluation.evaluate import evaluate
    from ictcli.evaluation.trained import Trained, as_trained
    from ictcli.files import write_json
    from ictcli.runs import free_folder, is_run
    from ictcli.tasks import find_benchmark
    from ictcli.types import Sampling

    if min(ks) < 1:
        raise UserError(f"There is no pass@{min(ks)}.", "--k 1,4: numbers from 1 up")
    if max(ks) > n:
        raise UserError(
            f"pass@{max(ks)} needs at least {max(ks)} samples a problem, not n = {n}.",
            f"--n {max(ks)}, or a smaller --k",
        )
    run_folder = Path(model) if is_run(Path(model)) else None
    trained = as_trained(run_folder) if run_folder else Trained()
    for line in trained.missing:
        narrate(f"note: {line}")
    for file in plugin_files:
        plugins.load(file)
    benchmarks = [find_benchmark(name.strip()) for name in names.split(",")]
    asked = {"backend": backend, "device": device, "threads": threads}
    asked = {key: value for key, value in asked.items() if value is not None}
    engine = build_engine(model, trained.engine.model_copy(update=asked))
    base = run_folder / "eval" if run_folder else Path("evals")
    folder = out or free_folder(base, f"{Path(model.replace(':', '-')).name}-seed{seed}")
    write_json(folder / "results.json", [])  # a folder that takes no file is found out now
    found: list[dict[str, Any]] = []
    with EvalProgress() as progress:
        for number, benchmark in enumerate(benchmarks):
            stem = Path(benchmark.name).stem
            taken = [Path(other.name).stem for other in benchmarks[:number]].count(stem)
            sampling = Sampling(
                max_tokens or benchmark.max_tokens,
                trained.temperature if temperature is None else temperature,
                trained.sampling.top_p,
                trained.sampling.top_k,
                engine.stop_ids,
            )
            result = evaluate(
                engine,
                benchmark.name,
                benchmark.problems(limit),
                benchmark.domain,
                sampling,
                trained.prompt,
                n=n,
                ks=ks,
                seed=seed,
                samples=folder / f"{stem}{f'-{taken + 1}' if taken else ''}.jsonl",
                progress=progress.of(benchmark.name),
            )
            found.append({"model": model, **result.json()})
            write_json(folder / "results.json", found)
    evaluations(found, folder, as_json=as_json)
