"""Finding and reading recorded rollouts: of a run, or one file that was taken out of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from ictcli.errors import UserError
from ictcli.files import numbered
from ictcli.recipe import Recipe, check, plugins
from ictcli.rewards import Verdict
from ictcli.runs import is_run, read_rollouts
from ictcli.train.step import Batch
from ictcli.types import BoolArray, FloatArray, Problem, Rollouts

NAME = r"step-(\d+)\.safetensors"


@dataclass(frozen=True)
class Place:
    """Where recorded rollouts lie."""

    run: Path | None
    """None: a file without its run."""
    steps: dict[int, Path]
    """Every step recorded there, ascending."""


@dataclass(frozen=True)
class Recorded:
    """One recorded step."""

    place: Place
    step: int
    recipe: Recipe
    """The run's; without one the defaults, with this batch's sizes."""
    own: str | None
    """The run's method; None where its recipe is not known."""
    batch: Batch
    kept: BoolArray
    """(B, T), what the step was trained on."""
    weights: FloatArray
    """(B, T)"""
    notes: tuple[str, ...]
    """What a reader has to know, a sentence each."""

    @property
    def path(self) -> Path:
        return self.place.steps[self.step]


def find(source: Path) -> Place:
    """The recorded steps of a run folder, or a file with its neighbours. UserError where there are
    none."""
    if source.is_file():
        folder = source.parent
        run = folder.parent if folder.name == "rollouts" and is_run(folder.parent) else None
        steps = dict(numbered(folder, NAME)) if run else {}
        if source.resolve() in {path.resolve() for path in steps.values()}:
            return Place(run, steps)
        return Place(None, {_described(source)["step"]: source})
    if not source.is_dir():
        raise UserError(
            f"There is no run or file {source}.", "ictcli inspect RUN, or a file in RUN/rollouts"
        )
    if not is_run(source):
        inside = [p.parent for deep in ("*", "*/*") for p in source.glob(f"{deep}/recipe.toml")]
        raise UserError(
            f"{source} is not a run folder: it has no recipe.toml.",
            f"ictcli inspect {min(inside)}" if inside else "ictcli train RECIPE --run FOLDER",
        )
    steps = dict(numbered(source / "rollouts", NAME))
    if not steps:
        raise UserError(
            f"{source} has no recorded rollouts.",
            "record.rollouts_every=10 records them every 10 steps of a run",
        )
    return Place(source, steps)


def chosen_step(place: Place, source: Path, step: int | None) -> int:
    """The step asked for; without one that of the file, or the last. UserError with those there
    are."""
    if step is None:
        named = [number for number, path in place.steps.items() if path == source]
        return named[0] if named else max(place.steps)
    if step not in place.steps:
        raise UserError(
            f"No rollouts were recorded at step {step}.",
            "recorded: " + ", ".join(str(number) for number in place.steps),
        )
    return step


def read(place: Place, step: int) -> Recorded:
    """Read one recorded step, with the recipe of its run. UserError for a file that is none."""
    path = place.steps[step]
    _described(path)
    arrays, about = read_rollouts(path)
    rollouts = Rollouts(
        prompts=tuple(tuple(prompt) for prompt in about["prompts"]),
        group=about["group"],
        tokens=arrays["tokens"],
        lengths=arrays["lengths"],
        finished=arrays["finished"],
        logp=arrays["logp"],
        stats={
            name.removeprefix("stats/"): values
            for name, values in arrays.items()
            if name.startswith("stats/")
        },
    )
    batch = Batch(
        problems=[_problem(problem) for problem in about["problems"]],
        rollouts=rollouts,
        texts=about["texts"],
        verdicts=[_verdict(verdict) for verdict in about["verdicts"]],
        rewards=arrays["rewards"],
        advantage=arrays["advantage"],
    )
    recipe, own, notes = _recipe(place.run, rollouts, step)
    kept, weights = arrays["kept"].astype(bool), arrays["weights"]
    return Recorded(place, step, recipe, own, batch, kept, weights, notes)


def _described(path: Path) -> dict[str, Any]:
    """The description in a file of rollouts; UserError where there is none that can be read."""
    try:
        _, about = read_rollouts(path)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no file of recorded rollouts, or a damaged one.",
            "ictcli inspect RUN/rollouts/step-....safetensors, or another step with --step",
        ) from error
    return about


def _problem(found: dict[str, Any]) -> Problem:
    return Problem(
        str(found["id"]), found["prompt"], str(found["gold"]), tuple(found.get("choices") or ())
    )


def _verdict(found: dict[str, Any]) -> Verdict:
    return Verdict(
        found["status"],
        found.get("extracted") or "",
        found.get("reason") or "",
        found.get("score"),
    )


def _recipe(
    run: Path | None, rollouts: Rollouts, step: int
) -> tuple[Recipe, str | None, tuple[str, ...]]:
    """The run's recipe for this batch, and its method. A plugin that is gone is done without; where
    that leaves no recipe, or there is no run, the defaults stand in."""
    sizes = {"prompts": len(rollouts.prompts), "group": rollouts.group}
    notes: list[str] = []
    model = ""
    if run is not None:
        data = tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))
        model = str(data.get("model", ""))
        for name in data.pop("plugins", []):
            try:
                plugins.load(name)
            except UserError as error:
                notes.append(error.message)
        try:
            recipe = check(data, str(run / "recipe.toml")).model_copy(update=sizes)
            return recipe, recipe.rule.name, tuple(notes)
        except UserError as error:
            notes.append(f"The recipe cannot be read: {error.message}")
    else:
        notes.append("This file lies outside its run")
    notes[-1] = notes[-1].rstrip(".") + ": methods choose with their default options."
    T = int(np.asarray(rollouts.lengths).max(initial=1))
    method = {"name": "ict"}
    standing = Recipe(model=model, task="", method=method, steps=max(1, step), max_tokens=T)
    return standing.model_copy(update=sizes), None, tuple(notes)
