"""ictcli grade: judge a file of responses and golds."""

from pathlib import Path

import click

from ictcli.cli import json_option


@click.command("grade")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kind", default="math", show_default=True, help="Verifier: math, integer, ...")
@click.option("--pattern", help="Regular expression whose last match is the answer (group 1).")
@click.option("--timeout", default=5.0, show_default=True, help="Maximum CPU seconds per answer.")
@click.option("--memory", default=1.0, show_default=True, help="Maximum memory per answer, in GiB.")
@click.option("--plugin", "plugin_files", multiple=True, help="A .py file that adds verifiers.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write the verdicts to.")
@click.option("--explain", is_flag=True, help="Show how each row's answer and gold were parsed.")
@json_option(help="Print the verdicts as JSON.")
def command(
    file: Path,
    kind: str,
    pattern: str | None,
    timeout: float,
    memory: float,
    plugin_files: tuple[str, ...],
    out: Path | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Judge each row of a JSONL, CSV or Parquet file.

    Columns: response, gold, and optionally choices (the texts of (A), (B), ...) and question or
    prompt. docs/verifiers.md explains which answers count as equal.

    \b
    ictcli grade answers.jsonl
    ictcli grade answers.jsonl --explain
    ictcli grade answers.jsonl --kind integer --pattern '^A: (.*)$' --out verdicts.jsonl
    """
    from ictcli.console.results import graded
    from ictcli.errors import UserError
    from ictcli.files import gate, plugins
    from ictcli.rewards import Limits, find_verifier, grade
    from ictcli.rewards import explain as explained
    from ictcli.rewards.files import read_responses, write_verdicts

    for name in plugin_files:
        plugins.load(name, typed=True)
    gate.note_typed(kind)
    try:
        limits = Limits(timeout, memory)
    except ValueError as error:
        raise UserError(
            "--timeout and --memory must be positive.", "--timeout 5 --memory 1"
        ) from error
    verifier = find_verifier(kind)
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        fault = "is a folder" if out.is_dir() else f"needs the folder {out.parent}"
        raise UserError(f"--out {out} {fault}.", "--out verdicts.jsonl")
    responses = read_responses(file)
    columns = [name for response in responses for name in response.columns]
    verifier.check_columns(str(file), columns, "the file needs a column of that name")
    verdicts = (explained if explain else grade)(
        [response.text for response in responses],
        [response.gold for response in responses],
        verifier,
        pattern=pattern,
        choices=[response.choices for response in responses],
        questions=[response.question for response in responses],
        columns=[response.columns for response in responses],
        limits=limits,
    )
    unread = [response.number for response in responses if not verifier.readable(response.gold)]
    graded(responses, verdicts, unread, as_json=as_json)
    if out is not None:
        write_verdicts(out, responses, verdicts)
