"""Choosing a setting for every variant alike, before the runs that count."""

from collections.abc import Mapping, Sequence

from ictcli.compare.design import RunSpec
from ictcli.compare.launch import Summaries, read_summary
from ictcli.compare.variants import Variant
from ictcli.errors import NothingFinishedError, UserError
from ictcli.tables.numbers import counted
from ictcli.tasks.prepare import task_of

METRIC = "pass@1"
Tuned = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By variant and override: pass@k on the tuning problems."""


def tuning_scores(tries: Sequence[RunSpec], summaries: Summaries) -> Tuned:
    """What the tuning runs reached; failed runs are left out."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for spec in tries:
        of_variant = scores.setdefault(spec.variant.label, {})
        if summary := summaries.get(spec.folder):
            of_variant[spec.trying] = {k: passes.value for k, passes in summary.after.items()}
    return scores


def best_overrides(tuned: Tuned, variants: Sequence[Variant]) -> dict[str, str]:
    """By variant the override of the highest pass@1 (the first k, if 1 is not evaluated), the
    earlier of equals. Variants without a finished run are left out; NothingFinishedError without
    any."""
    best: dict[str, str] = {}
    for variant in variants:
        if scores := tuned.get(variant.label):
            first = next(iter(scores.values()))
            metric = METRIC if METRIC in first else next(iter(first))
            best[variant.label] = max(scores.items(), key=lambda each: each[1][metric])[0]
    if not best:
        raise NothingFinishedError(
            "Every tuning run failed.", "mend what the lines above say, or leave --tune out"
        )
    return best


def earlier_choice(tries: Sequence[RunSpec], variants: Sequence[Variant]) -> dict[str, str] | None:
    """What tuning chose, if all of it is done; None if a run of it is missing or damaged."""
    summaries: Summaries = {}
    for spec in tries:
        summary = read_summary(spec.folder)
        if summary is None or isinstance(summary, str):
            return None
        summaries[spec.folder] = summary
    return best_overrides(tuning_scores(tries, summaries), variants)


def check_problems(tries: Sequence[RunSpec]) -> list[str]:
    """Check, before anything is trained, that held-out problems are left to tune on beside those of
    the final runs; gives a note where they are fewer. UserError where there are none."""
    notes: list[str] = []
    keys = {"task", "data", "eval", "reward", "plugins"}
    recipes = {repr(spec.recipe.model_dump(include=keys)): spec.recipe for spec in tries}
    for recipe in recipes.values():
        skip, wanted = recipe.eval.skip, recipe.eval.problems
        available = len(task_of(recipe).heldout(skip + wanted)) - (skip - wanted)
        problems = counted(max(available, 0), "problem")
        held = f"{recipe.eval.bench or recipe.task} holds out {problems}"
        if available < 2:
            raise UserError(
                f"{held}: too few to tune on some and be judged by others.",
                "leave --tune out, or take a larger data set",
            )
        if available <= wanted:
            raise UserError(
                f"{held}, and the final runs ask for {wanted}: none is left to tune on.",
                f"eval.problems={available // 2} leaves as many for tuning",
            )
        if available < 2 * wanted:
            notes.append(
                f"{held}: tuning is judged by {counted(available - wanted, 'problem')}, "
                f"the final runs by {wanted}"
            )
    return list(dict.fromkeys(notes))
