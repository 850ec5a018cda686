"""The problems of a recipe: what is trained on, what is held out, and what is left out of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ictcli.errors import UserError
from ictcli.recipe import Recipe
from ictcli.recipe.settings import Example
from ictcli.rewards import Limits
from ictcli.tasks import Domain, Task, find_benchmark, find_task, with_train
from ictcli.tasks.examples import draw_examples
from ictcli.tasks.split import digest_of, key_of
from ictcli.types import Problem

FEW = 8
"""Held-out problems below which a figure of them says little."""
MADE = 4096
"""Held-out problems looked at of a task that makes its own."""


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe as `prepare` gives it."""
    return prepare(recipe)[1]


def prepare(recipe: Recipe) -> tuple[Recipe, Task]:
    """The task of a recipe, judged and ordered as it says, with the held-out problems it asks for,
    none of which is trained on; and the recipe with the examples that `prompt.shots` draws. Both
    are functions of the recipe and the data alone."""
    task = find_task(recipe.task, recipe.reward.verifier, recipe.data, recipe.columns, recipe.hub)
    limits = Limits(recipe.reward.timeout, recipe.reward.memory)

    def judged(domain: Domain) -> Domain:
        return replace(domain, pattern=recipe.reward.pattern, limits=limits)

    task = replace(task, domain=judged(task.domain))
    examined: Sequence[Problem] = ()
    if recipe.eval.bench is not None:
        asked = recipe.eval
        bench = find_benchmark(recipe.eval.bench, asked.data, asked.columns, asked.hub)
        examined = bench.problems(None)
        if not task.train:  # its batches cannot be chosen: what it may give is not evaluated on
            given = {key_of(problem.prompt) for problem in task.finite}
            examined = [p for p in examined if key_of(p.prompt) not in given]
        if not examined:
            raise UserError(
                f"Every problem of {bench.name} is one of {recipe.task}, so none is held out.",
                "eval.bench=... another benchmark",
            )
        left = list(examined)

        def heldout(n: int) -> list[Problem]:
            return left[:n]

        task = replace(
            task,
            heldout=heldout,
            examined=(bench.name, judged(bench.domain)),
            notes=(*task.notes, *bench.notes),
        )
    held: set[str] = set()
    if task.train or recipe.prompt.examples:
        held = {key_of(p.prompt) for p in (examined or task.heldout(len(task.finite) or MADE))}
    task = _without(task, held, "held_out", "held-out problems, white space and case aside")
    recipe = _with_examples(recipe, task, held)
    shown = {key_of(example.prompt) for example in recipe.prompt.examples}
    task = _without(task, shown, "examples", "examples of the prompt")
    return recipe, _ordered(recipe, _few(recipe, task))


def described(recipe: Recipe, task: Task, heldout: Sequence[Problem]) -> dict[str, Any]:
    """What environment.json says of the data: its source, checksums of the problems to train on
    and of those a run is evaluated on, how many were left out of training, and the examples that
    were drawn."""
    train = {"problems": len(task.train), "sha256": digest_of(task.train)} if task.train else None
    drawn = [example.model_dump() for example in recipe.prompt.examples] * bool(recipe.prompt.shots)
    return {
        **task.source,
        "train": train,
        "heldout": {"problems": len(heldout), "sha256": digest_of(heldout)},
        "left_out": dict(task.left_out),
        **({"examples": drawn} if drawn else {}),
    }


def check_unchanged(recorded: dict[str, Any], now: dict[str, Any], folder: str) -> None:
    """UserError where the problems of a run are not those it began with, or where that cannot be
    known because it began before they were recorded, when another rule held problems out."""
    if recorded and "train" not in recorded:
        raise UserError(
            f"{folder} was begun by an earlier ictcli, which held out other problems.",
            "finish it with that version, or train in another folder: --run OTHER",
        )
    for part, words in (("train", "train on"), ("heldout", "evaluate on")):
        if part in recorded and recorded[part] != now[part]:
            raise UserError(
                f"The problems to {words} changed since {folder} began: {_told(recorded[part])}, "
                f"and now {_told(now[part])}.",
                "put the data back as it was, or train in another folder: --run OTHER",
            )


def _told(part: dict[str, Any] | None) -> str:
    return f"{part['problems']:,} of checksum {part['sha256'][:12]}" if part else "not listed"


def _without(task: Task, keys: Collection[str], reason: str, words: str) -> Task:
    """The task without the problems of these keys to train on, and a note of how many they were."""
    left = tuple(p for p in task.train if key_of(p.prompt) not in keys)
    out = len(task.train) - len(left)
    if not out:
        return task
    if not left:
        raise UserError(
            f"Every problem of {task.name} is one of the {words}, so none is left to train on.",
            "eval.bench=... another benchmark",
        )
    note = (
        f"{out:,} of {len(task.train):,} problems of {task.name} left out of training: "
        f"{'it is' if out == 1 else 'they are'} among the {words}."
    )
    task = replace(task, notes=(*task.notes, note), left_out={**task.left_out, reason: out})
    return with_train(task, left)


def _few(recipe: Recipe, task: Task) -> Task:
    """The task with a note where fewer are held out than the recipe asks for, or than `FEW`."""
    asked, skip = recipe.eval.problems, recipe.eval.skip
    found = len(task.heldout(skip + max(asked, FEW))) - skip
    if not 0 < found < max(asked, FEW):
        return task
    name = task.examined[0] if task.examined else task.name
    note = f"{name} has {found:,} held-out problem{'s' * (found > 1)} to evaluate on"
    note += f", of the {asked:,} that eval.problems asks for." if found < asked else "."
    return replace(task, notes=(*task.notes, note))


def _with_examples(recipe: Recipe, task: Task, held: Collection[str]) -> Recipe:
    prompt = recipe.prompt
    examples: tuple[Example, ...] = prompt.examples
    if prompt.shots:
        examples = draw_examples(task, task.train, prompt.shots, recipe.seed)
    for number, example in enumerate(examples, 1):
        if key_of(example.prompt) in held:
            raise UserError(
                f"Example {number} of prompt.examples is a held-out problem.", "take another"
            )
    prompt = prompt.model_copy(update={"examples": examples})
    return recipe.model_copy(update={"prompt": prompt})


def _ordered(recipe: Recipe, task: Task) -> Task:
    """The task with the first epoch in the order of the recipe's curriculum."""
    if recipe.curriculum == "none":
        return task
    if not task.train:
        raise UserError(
            f"The task {task.name} makes its problems as they are drawn, and has no order for "
            f"curriculum = {recipe.curriculum!r}.",
            "curriculum=none",
        )
    rank: Mapping[str, float] = {p.id: float(len(p.prompt)) for p in task.train}
    if recipe.curriculum == "difficulty":
        rank = task.difficulty
    if not rank:
        raise UserError(
            f"The problems of {task.name} have no difficulty to go by.",
            "columns.difficulty names a column of numbers; or curriculum=length",
        )
    return with_train(replace(task, rank=rank), task.train)


def heldout(recipe: Recipe, task: Task) -> list[Problem]:
    """The problems a run is evaluated on. UserError where too few are held out to skip as many."""
    skip = recipe.eval.skip
    problems = task.heldout(skip + recipe.eval.problems)[skip:]
    if not problems:
        raise UserError(
            f"{recipe.eval.bench or recipe.task} has no held-out problems behind the first {skip}.",
            "lower eval.problems and eval.skip",
        )
    return problems
