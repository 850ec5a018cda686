"""ictcli eval: pass@k, maj@n and greedy accuracy of models on benchmarks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ictcli.cli import CHECKPOINT, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options, split_settings


def _numbers(kind: type[float]) -> Callable[[Any, Any, str | None], tuple[float, ...] | None]:
    def read(ctx: Any, param: Any, value: str | None) -> tuple[float, ...] | None:
        try:
            return None if value is None else tuple(map(kind, value.split(",")))
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a list of numbers, such as 1,4.") from None

    return read


@click.command("eval")
@click.argument("arguments", metavar="MODEL|RUN... [KEY=VALUE]...", nargs=-1, required=True)
@click.option(
    "--bench",
    "names",
    help="Benchmarks, separated by commas.  [default: what the run was evaluated on]",
)
@click.option(
    "--n", type=click.IntRange(1), help="Samples per problem.  [default: 16, or the run's]"
)
@click.option(
    "-k", "--k", callback=_numbers(int), help="Values of k.  [default: 1,2,4, ... n, or the run's]"
)
@click.option(
    "--temperatures", callback=_numbers(float), help="More temperatures to sample at.  [default: 0]"
)
@click.option("--limit", type=click.IntRange(1), help="Evaluate only this many problems.")
@click.option(
    "--show-private", is_flag=True, default=None, help="Also save and show GPQA's questions."
)
@BACKEND
@CHECKPOINT
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for samples and results.  [default: in RUN/eval or evals]",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted evaluation.")
@json_option(help="Print the results as JSON.")
@TRUST
@process_options
def command(
    arguments: tuple[str, ...],
    names: str | None,
    backend: str | None,
    checkpoint: str | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
    threads: int | None,
    **sizes: Any,
) -> None:
    """Measure pass@k, maj@n and greedy accuracy of models.

    MODEL is a folder, a hub id or a built-in model (builtin:chain, builtin:ledger).

    KEY=VALUE are recipe keys: temperature, max_tokens, seed, data (a file to use instead of the
    hub's data; data.BENCH=FILE for one of several benchmarks), plugins, columns.*, hub.*, prompt.*,
    sampling.*, reward.verifier, .pattern, .timeout, .memory, engine.*; and eval.shots, the number
    of few-shot examples (public results on gsm8k use some). They default to the run's recipe or the
    benchmark's settings. Without --bench, the run's own evaluation is repeated. Samples are saved
    as they are drawn, so that --resume can continue.

    \b
    ictcli eval builtin:ledger runs/quickstart-ict-s0 --bench ledger,ledger-easy
    ictcli eval builtin:ledger runs/quickstart-ict-s0
    ictcli eval runs/quickstart-ict-s0 --bench ledger --n 64 --k 1,4,16
    ictcli eval runs/quickstart-ict-s0 --bench ledger --checkpoint best
    ictcli eval builtin:ledger --bench ledger --temperatures 0,0.3,0.7,1
    ictcli eval Qwen/Qwen2.5-0.5B runs/mine --bench math500,gsm8k temperature=0.6
    ictcli eval MODEL --bench gpqa_diamond data=gpqa_diamond.jsonl --resume
    ictcli eval MODEL --bench mine.csv columns.prompt=frage columns.gold=antwort
    """
    from ictcli.console.lines import narrate, warn_altered
    from ictcli.console.results import eval_progress, evaluations
    from ictcli.evaluation.benchmarks import as_its_run, benchmark_specs
    from ictcli.evaluation.settings import read_settings
    from ictcli.evaluation.suite import evaluate_suite
    from ictcli.runs import is_run
    from ictcli.runs.list import find_model
    from ictcli.runs.model import find_models
    from ictcli.tables.numbers import listed
    from ictcli.text import command as typed

    overrides, named = split_settings(arguments)
    if not named:
        raise click.UsageError("Missing argument 'MODEL|RUN...'.")
    models = [find_model(name) for name in named]
    overrides += engine_settings(backend, threads)
    settings = read_settings(overrides, **sizes)
    for run in filter(is_run, map(Path, models)):
        warn_altered(run, "recipe.toml", "environment.json", "model/*", "adapter/*")
    specs = find_models(models, settings, checkpoint, narrate)
    if names or any(spec.run for spec in specs):
        narrate(f"loading {listed(names.split(',')) if names else 'the problems of the run'}")
    settings = settings if names else as_its_run(settings, specs)
    benchmarks = benchmark_specs(names, settings, specs)
    with eval_progress() as progress:
        results, folder = evaluate_suite(
            specs, benchmarks, settings, out=out, resume=resume, say=narrate, progress=progress
        )
    evaluations(results, folder, as_json=as_json)
    runs = [spec.run for spec in specs if spec.run]
    if runs and not as_json and not (Path(runs[0]) / "export").exists():
        narrate(f"next: {typed('export', runs[0], checkpoint=checkpoint)}")
