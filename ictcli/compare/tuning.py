"""Choosing a setting for every variant alike, before the runs that count."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ictcli.compare.claims import counted
from ictcli.compare.design import RunSpec, Variant
from ictcli.compare.launch import Summaries
from ictcli.errors import RunFailedError, UserError
from ictcli.recipe import Recipe
from ictcli.train.step import task_of

METRIC = "pass@1"


def tuning_scores(
    tries: Sequence[tuple[RunSpec, str]], summaries: Summaries
) -> dict[str, dict[str, dict[str, float]]]:
    """By variant and override: pass@k on the tuning problems; failed runs are left out."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for spec, override in tries:
        of_it = found.setdefault(spec.variant.label, {})
        if summary := summaries.get(spec.folder):
            of_it[override] = {k: one["value"] for k, one in summary["after"].items()}
    return found


def best_overrides(
    tuned: Mapping[str, Mapping[str, Mapping[str, Any]]], variants: Sequence[Variant]
) -> dict[str, str]:
    """By variant the override of highest pass@1 (the first k, where 1 is not among them), the
    earlier of equals. Variants without a finished run are left out; RunFailedError where none has
    one."""
    found: dict[str, str] = {}
    for variant in variants:
        if values := tuned.get(variant.label):
            first = next(iter(values.values()))
            metric = METRIC if METRIC in first else next(iter(first))
            reach = [values[override][metric] for override in values]
            found[variant.label] = list(values)[reach.index(max(reach))]
    if not found:
        raise RunFailedError(
            "Every tuning run failed.", "mend what the lines above say, or leave --tune out"
        )
    return found


def earlier_choice(
    tries: Sequence[tuple[RunSpec, str]], variants: Sequence[Variant]
) -> dict[str, str] | None:
    """What tuning chose, where all of it was done before; None where a run of it is missing."""
    summaries: Summaries = {}
    try:
        for spec, _ in tries:
            text = (spec.folder / "summary.json").read_text(encoding="utf-8")
            summaries[spec.folder] = json.loads(text)
        return best_overrides(tuning_scores(tries, summaries), variants)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def check_problems(tries: Sequence[tuple[RunSpec, str]]) -> list[str]:
    """That problems are left to tune on, behind those of the final runs, before anything is
    trained; a note where they are fewer. UserError where there are none."""
    notes: list[str] = []
    asked: dict[str, Recipe] = {}
    for spec, _ in tries:
        decides = spec.recipe.model_dump(include={"task", "data", "eval", "reward", "plugins"})
        asked.setdefault(repr(decides), spec.recipe)
    for recipe in asked.values():
        skip, wanted = recipe.eval.skip, recipe.eval.problems
        there = len(task_of(recipe).heldout(skip + wanted)) - (skip - wanted)
        held = f"{recipe.eval.bench or recipe.task} holds out {counted(max(there, 0), 'problem')}"
        if there < 2:
            raise UserError(
                f"{held}: too few to tune on some and be judged by others.",
                "leave --tune out, or take a larger data set",
            )
        if there <= wanted:
            raise UserError(
                f"{held}, and the final runs ask for {wanted}: none is left to tune on.",
                f"eval.problems={there // 2} leaves as many for tuning",
            )
        if there < 2 * wanted:
            notes.append(
                f"{held}: tuning is judged by {counted(there - wanted, 'problem')}, "
                f"the final runs by {wanted}"
            )
    return list(dict.fromkeys(notes))
