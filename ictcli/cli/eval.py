"""ictcli eval: pass@k and maj@n of models on benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ictcli.cli.process import finite, nice_and_awake
from ictcli.cli.train import BACKENDS


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not numbers with commas between.") from None


@click.command("eval")
@click.argument("models", metavar="MODEL|RUN...", nargs=-1, required=True)
@click.option("--bench", "names", required=True, help="Benchmarks, with commas between.")
@click.option("--n", default=16, show_default=True, type=click.IntRange(1), help="Samples each.")
@click.option("--k", "ks", default="1,4", show_default=True, callback=_numbers, help="pass@k.")
@click.option(
    "--temperature", type=click.FloatRange(0), callback=finite, help="Default: the run's, else 1."
)
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    callback=finite,
    help="Default: the run's, else 1.",
)
@click.option("--max-tokens", type=click.IntRange(1), help="Instead of the benchmark's own.")
@click.option("--limit", type=click.IntRange(1), help="The first problems only.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--data",
    multiple=True,
    metavar="[BENCH=]FILE",
    help="A .jsonl, .csv or .parquet file in place of the hub's data.",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="KEY=NAME",
    help="A column of a data set of one's own: prompt, gold, choices or id.",
)
@click.option(
    "--hub", multiple=True, metavar="KEY=VALUE", help="config, split, revision of hub:owner/name."
)
@click.option(
    "--template", help="auto, chat, none, or a text with {question} in it, or a file with one."
)
@click.option("--system", help="A system prompt.")
@click.option("--suffix", help="Put behind the question, instead of the benchmark's own.")
@click.option("--examples", help="A file of few-shot examples (prompt, response), or none.")
@click.option("--pattern", help="A regular expression whose first group is the answer.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    help="Seconds to judge an answer in.  [default: 5]",
)
@click.option("--show-private", is_flag=True, help="Keep and show the questions of GPQA too.")
@click.option("--backend", type=BACKENDS, help="Which engine runs the model.")
@click.option("--device", help="auto, cuda, mps or cpu.")
@click.option("--threads", type=click.IntRange(0, 1024), help="CPU threads; 0: as it likes.")
@click.option("--rows", type=click.IntRange(1), help="Rows sampled at once; lower: less memory.")
@click.option(
    "--checkpoint", metavar="best|STEP", help="The runs' checkpoint, instead of the final model."
)
@click.option("--plugin", "plugin_files", multiple=True, help="A .py file that adds benchmarks.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for samples and results.")
@click.option("--resume", is_flag=True, help="Go on where an evaluation like this one ended.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print them as Markdown.")
@nice_and_awake
def command(
    models: tuple[str, ...],
    names: str,
    n: int,
    ks: tuple[int, ...],
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    limit: int | None,
    seed: int,
    data: tuple[str, ...],
    columns: tuple[str, ...],
    hub: tuple[str, ...],
    template: str | None,
    system: str | None,
    suffix: str | None,
    examples: str | None,
    pattern: str | None,
    timeout: float | None,
    show_private: bool,
    backend: str | None,
    device: str | None,
    threads: int | None,
    rows: int | None,
    checkpoint: str | None,
    plugin_files: tuple[str, ...],
    out: Path | None,
    resume: bool,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Measure pass@k and maj@n of model folders, hub ids, builtin:chain, or runs, side by side.

    Samples are kept as they come: --resume goes on with an evaluation that was stopped.

    \b
    ictcli eval builtin:chain --bench chain,chain-long
    ictcli eval runs/quickstart-ict-s0 --bench chain --n 64 --k 1,4,16
    ictcli eval runs/quickstart-ict-s0 --bench chain --checkpoint best
    ictcli eval Qwen/Qwen2.5-0.5B runs/mine --bench math500,gsm8k --temperature 0.6
    ictcli eval MODEL --bench gpqa_diamond --data gpqa_diamond.jsonl --resume
    ictcli eval MODEL --bench mine.csv --columns prompt=frage --columns gold=antwort
    """
    from ictcli.console import EvalProgress, evaluations, narrate
    from ictcli.errors import UserError
    from ictcli.evaluation.asking import examples_of, table_of, template_text
    from ictcli.evaluation.request import Request, find_benchmarks, find_contenders
    from ictcli.evaluation.session import run
    from ictcli.recipe import plugins
    from ictcli.recipe.settings import ColumnSettings, HubSettings

    if as_json and as_markdown:
        raise UserError("--json and --markdown are two ways to print.", "take one of them")
    if template is not None:
        template = template_text(template)
    request = Request(
        n=n,
        ks=ks,
        seed=seed,
        limit=limit,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        engine=_given(backend=backend, device=device, threads=threads, rows=rows),
        prompt=_given(
            template=template,
            system=system,
            suffix=suffix,
            examples=None if examples is None else examples_of(examples),
        ),
        columns=table_of(ColumnSettings, "--columns", columns),
        hub=table_of(HubSettings, "--hub", hub),
        pattern=pattern,
        timeout=timeout,
        show_private=show_private,
    )
    request.check()
    contenders = find_contenders(models, request, checkpoint)
    for line in dict.fromkeys(line for one in contenders for line in one.trained.missing):
        narrate(f"note: {line}")
    loaded = [plugins.load(file) for file in plugin_files]
    asked = find_benchmarks(names, data, request)
    with EvalProgress() as progress:
        found, folder = run(
            contenders,
            asked,
            request,
            plugins=loaded,
            out=out,
            resume=resume,
            say=narrate,
            progress=progress.of,
        )
    evaluations(found, folder, as_json=as_json, as_markdown=as_markdown)


def _given(**options: Any) -> dict[str, Any]:
    """Those that were asked for."""
    return {name: value for name, value in options.items() if value is not None}
