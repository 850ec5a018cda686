"""ictcli download: what is needed to work without a network afterwards."""

import click

from ictcli.cli import JSON, completion
from ictcli.cli.options import TRUST


@click.command("download")
@click.argument(
    "names",
    metavar="RECIPE|MODEL|BENCHMARK...",
    nargs=-1,
    required=True,
    shell_complete=completion.downloads,
)
@JSON
@TRUST
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Fetch what the named things need, for working without a network afterwards.

    Of a recipe that is its model with the tokenizer, the data it trains on and its benchmarks. A
    model is a hub id, a data set hub:OWNER/NAME. All goes into the cache of the Hugging Face
    libraries, where every command finds it. A download that was broken off goes on.

    \b
    ictcli download qwen2.5-0.5b-gsm8k
    ictcli download Qwen/Qwen2.5-0.5B math500 aime24
    """
    from ictcli.console.lines import narrate
    from ictcli.console.table import print_records
    from ictcli.runs.trust import read_typed
    from ictcli.tasks.download import download, is_recipe

    rows: list[dict[str, str]] = []
    for name in names:
        file = read_typed(name) if is_recipe(name) else None
        narrate(f"fetching {name}")
        rows += download(file or name)
    print_records(rows, as_json=as_json)
