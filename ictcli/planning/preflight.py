"""Checks of a recipe and its data that need no model: errors, and notes on likely mistakes."""

import contextlib
from importlib.util import find_spec

from ictcli.engine import choose_backend, shape
from ictcli.errors import EngineMissingError, UserError, install
from ictcli.planning.machine import device_of
from ictcli.ranks import find_launch
from ictcli.recipe import Recipe
from ictcli.tasks import find_benchmark
from ictcli.tasks.hub import ElsewhereError, files_alone
from ictcli.tasks.prepare import heldout, task_of

MODULES = {"tensorboard": "tensorboardX"}
"""The Python module of a tracker, if its name differs from the tracker's."""


def check_trackers(recipe: Recipe) -> None:
    """Raise UserError if a tracker that the recipe logs to is not installed."""
    for name in recipe.log:
        if find_spec(module := MODULES.get(name, name)) is None:
            raise UserError(
                f"log={name} needs {module}, which is not installed.",
                f"{install(name)}; log=[] leaves it out",
            )


def recipe_notes(recipe: Recipe) -> list[str]:
    """Return notes on settings that are probably mistakes. UserError if they cannot work."""
    notes, settings = list[str](), recipe.engine
    if settings.dtype == "bfloat16" and device_of(settings) == "cpu":
        notes.append(
            "On a CPU, use bfloat16 only if the model does not fit in float32: it changes the "
            "gradient by about 7 % (docs/your-model.md)."
        )
    if settings.sampler == "vllm":
        _check_vllm(recipe)
    if settings.shard:
        if choose_backend(settings.backend) != "torch":
            raise UserError("engine.shard needs the torch engine.", "engine.shard=false")
        if recipe.adapters:
            raise UserError(
                "engine.shard divides trained weights, but adapters freeze the model's weights.",
                "engine.shard=false",
            )
        if not find_launch():
            notes.append("engine.shard has no effect in one process; torchrun starts several.")
    if 0 < recipe.steps <= recipe.dense_steps:
        notes.append(
            f"{recipe.rule.name} never selects tokens: with warmup = {recipe.warmup} all "
            f"{recipe.steps} steps train every token. Use a shorter warmup or more steps."
        )
    if recipe.sft_steps and recipe.kl:
        notes.append(
            "kl is measured against the model before the supervised steps. To measure it against "
            "the model after SFT, train two runs: steps=0, then model=RUN and no sft.data."
        )
    return notes


def _check_vllm(recipe: Recipe) -> None:
    settings, sampling = recipe.engine, recipe.sampling
    backend, device = choose_backend(settings.backend), device_of(settings)
    if backend != "torch" or device == "mps" or settings.load_in_4bit:
        raise UserError(
            "engine.sampler=vllm needs the torch engine, a CPU or CUDA, and no load_in_4bit.",
            "engine.sampler=own",
        )
    if recipe.temperature not in (0, 1) and (sampling.top_k or sampling.top_p < 1):
        raise UserError(
            "vLLM returns no log-probabilities for temperature != 1 combined with top-p or top-k.",
            "temperature=1, or sampling.top_p=1 and sampling.top_k=0",
        )
    if find_spec("vllm") is None:
        raise EngineMissingError(
            "engine.sampler=vllm needs vLLM, which is not installed.", install("vllm")
        )


def preflight(recipe: Recipe) -> list[str]:
    """Return notes on a recipe and its data. Data sets of the hub are not opened; a note says so.
    UserError if `train` would refuse the data, or if max_tokens fills the model's context."""
    check_trackers(recipe)
    notes = recipe_notes(recipe)
    with files_alone():
        try:
            task = task_of(recipe)
            heldout(recipe, task)
            notes += task.notes
        except ElsewhereError as error:
            notes.append(f"{error.message.removesuffix('.')} in a dry run: its rows are unchecked.")
            test = recipe.eval
            if test.bench is not None:  # a file can be checked, even if the training data cannot
                with contextlib.suppress(ElsewhereError):
                    find_benchmark(test.bench, test.data, test.columns, test.hub, recipe.columns)
    try:
        longest = shape.read_shape(recipe.model).context
    except UserError:
        return notes  # `check_memory` says why
    context = shape.choose_context(recipe.engine.context, longest)
    if recipe.max_tokens >= context:
        raise UserError(
            f"max_tokens = {recipe.max_tokens} leaves no room for a prompt in the model's "
            f"context of {context} tokens.",
            "lower max_tokens, or use a model with a longer context",
        )
    return notes
