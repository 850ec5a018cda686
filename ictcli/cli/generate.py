"""ictcli generate: let a model answer a prompt, or chat with it."""

import sys
from typing import Any

import click

from ictcli.cli import CHECKPOINT, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options, split_settings
from ictcli.errors import UserError

STDIN = "-"
_EQUALS = "; if your prompt looks like KEY=VALUE, type - and send the prompt on stdin"


@click.command("generate")
@click.argument("arguments", metavar="RUN|MODEL [PROMPT] [KEY=VALUE]...", nargs=-1, required=True)
@click.option("--n", type=click.IntRange(1), help="Number of answers.  [default: 1]")
@click.option("--temperature", type=click.FloatRange(0), help="Sampling temperature; 0 = greedy.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the sampling.  [default: 0]")
@click.option("--gold", help="The correct answer, by which the model's answers are judged.")
@BACKEND
@CHECKPOINT
@json_option(help="Print everything as JSON.")
@TRUST
@process_options
def command(
    arguments: tuple[str, ...],
    gold: str | None,
    backend: str | None,
    checkpoint: str | None,
    as_json: bool,
    threads: int | None,
    **typed: Any,
) -> int:
    """Ask a model a question, or chat with it on a terminal.

    MODEL is a folder, a hub id or a built-in model (builtin:chain, builtin:ledger). Without PROMPT
    a chat starts; if stdin is not a terminal, or PROMPT is -, the prompt is read from stdin.

    A run's model is prompted, sampled and judged as in the run's evaluations. KEY=VALUE changes
    these settings, as in ictcli eval: temperature, max_tokens, seed, plugins, prompt.*, sampling.*,
    reward.verifier, .pattern, .timeout, .memory, engine.*. Repeating a command repeats its answers.

    \b
    ictcli generate builtin:chain "7*9-8+2*2+3*7="
    ictcli generate runs/mine "What is 17 * 23?" --n 4 --gold 391
    ictcli generate runs/mine --checkpoint best prompt.system="Think twice."
    ictcli generate Qwen/Qwen2.5-0.5B-Instruct --temperature 0.6
    ictcli generate runs/mine - --json < question.txt
    """
    from ictcli.console.answers import chat, print_answers
    from ictcli.console.lines import narrate, warn_altered
    from ictcli.evaluation.settings import GenerateSettings, typed_settings
    from ictcli.generate.session import Session, form_of
    from ictcli.runs.list import find_model
    from ictcli.runs.model import find_models

    overrides, places = split_settings(arguments)
    overrides += engine_settings(backend, threads)
    if not places:
        raise click.UsageError("Missing argument 'RUN|MODEL'.")
    model, *prompts = places
    if len(prompts) > 1:
        raise UserError(
            f"There is a model and {len(prompts)} prompts; only one prompt is allowed.",
            "put the prompt in quotes",
        )
    settings = typed_settings(GenerateSettings, "ictcli generate", overrides, typed, _EQUALS)
    question = _question(*prompts)
    if question is None and (settings.n > 1 or gold is not None or as_json):
        raise UserError("--n, --gold and --json need a prompt.", "ictcli generate MODEL PROMPT")
    narrate(f"loading {model}")
    (spec,) = find_models([find_model(model)], settings, checkpoint, narrate)
    if spec.run:
        warn_altered(spec.run, "recipe.toml", "environment.json", "model/*", "adapter/*")
    form = form_of(spec, settings.reward, narrate, judge=gold is not None)
    if gold is not None and not spec.run and form.domain.suffix and spec.prompt.suffix is None:
        suffix = form.domain.suffix.strip()
        narrate(f'note: with --gold the prompt ends in "{suffix}"; prompt.suffix="" leaves it out')
    session = Session(spec, form, settings)
    if question is None:
        return chat(session)
    return print_answers(session, question, gold, as_json=as_json)


def _question(prompt: str | None = None) -> str | None:
    """Return the typed or piped prompt; None to chat on the terminal."""
    if prompt is None and sys.stdin.isatty():
        if sys.stdout.isatty():
            return None
        raise click.UsageError("Missing argument 'PROMPT'.")
    if prompt not in (None, STDIN):
        return prompt
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
        return text.removesuffix("\n").removesuffix("\r")  # further line ends belong to the prompt
    except UnicodeDecodeError as error:
        raise UserError(f"The prompt is not UTF-8: {error}.", "convert it with iconv") from error
