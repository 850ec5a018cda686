"""Training without a signal: what the responses were like, why nothing was learned, and what to
type next."""

import shlex
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from ictcli.errors import NothingLearnedError
from ictcli.recipe import Recipe
from ictcli.rewards import Verifier
from ictcli.runs import Run
from ictcli.runs.records import Summary, Unlearned
from ictcli.runs.rollouts import Batch
from ictcli.tables.numbers import counted
from ictcli.tasks import Domain
from ictcli.text import shell_word

TRIAL = 5
"""A training of fewer steps tries something out, and ends as it should without a gradient."""
STEPS = 5
"""Steps in a row without a group of unequal rewards that are an alarm."""


@dataclass(frozen=True)
class Shares:
    """Of a step without signal: shares of responses, then shares of groups."""

    unparsed: float
    truncated: float
    all_right: float
    all_wrong: float


def shares_of(batch: Batch) -> Shares | None:
    """The shares of a step; None if the rewards of a group differ."""
    if batch.advantage.any():
        return None
    right = batch.correct.reshape(-1, batch.rollouts.group)
    unparsed = [verdict.status == "unparsed" for verdict in batch.verdicts]
    return Shares(
        unparsed=float(np.mean(unparsed)),
        truncated=float(1 - batch.rollouts.finished.mean()),
        all_right=float(right.all(axis=1).mean()),
        all_wrong=float((~right.any(axis=1)).mean()),
    )


def mean(steps: Sequence[Shares]) -> Shares:
    """The mean shares of some steps."""
    return Shares(*np.mean([astuple(step) for step in steps], axis=0).tolist())


def sentence(step: int, shares: Shares) -> str:
    """What is wrong, as the alarm says it."""
    return (
        f"Nothing is learned: no group of unequal rewards in the {STEPS} steps up to step {step}. "
        f"Of their responses {shares.unparsed:.0%} are unparsed and {shares.truncated:.0%} "
        f"truncated; of their groups {shares.all_right:.0%} are all right and "
        f"{shares.all_wrong:.0%} all wrong."
    )


def check_learned(summary: Summary) -> None:
    """NothingLearnedError where every gradient of `TRIAL` steps or more was 0."""
    if summary.unlearned and summary.steps >= TRIAL:
        raise NothingLearnedError(summary.unlearned.sentence, summary.unlearned.hint)


def unlearned(run: Run, recipe: Recipe, domain: Domain) -> Unlearned | None:
    """Why nothing was learned, where every gradient of a run was 0; else None."""
    steps = list(run.metrics())
    if not steps or any(metrics.grad_norm or not metrics.finite for metrics in steps):
        return None

    def share(name: str) -> float:
        values = [metrics.value(name) for metrics in steps]
        return float(np.mean([value for value in values if value is not None] or [0.0]))

    first = " after the supervised steps" * bool(recipe.sft.data)
    begin, number = f"Nothing was learned{first}, because", counted(len(steps), "step")
    if signal := share("groups_with_signal"):
        return Unlearned(
            sentence=f"{begin} every gradient of {number} was 0: {recipe.label} keeps "
            f"{share('share_kept'):.1%} of the tokens, none where rewards differ, as they do in "
            f"{signal:.0%} of the groups.",
            hint="method=grpo trains every token",
        )
    correct = share("correct")
    shares = Shares(share("unparsed"), share("truncated"), correct, 1 - correct)
    return Unlearned(
        sentence=f"{begin} the rewards of a group differed in none of {number}: of the responses "
        f"{correct:.0%} are correct, {shares.unparsed:.0%} unparsed and {shares.truncated:.0%} "
        "truncated.",
        hint=advice(run.folder, recipe, domain, shares),
    )


def advice(run: Path, recipe: Recipe, domain: Domain, shares: Shares) -> str:
    """What to type next, and why."""
    grade = grade_command(run, recipe, domain)
    wider = f"group={2 * recipe.group}"
    if shares.truncated >= 0.5:
        return f"max_tokens={2 * recipe.max_tokens} (room for longer responses)"
    if shares.unparsed >= 0.5:
        way = "" if recipe.sft.data else "; sft.data=FILE (a few supervised steps teach the form)"
        return f"{grade} (shows where an answer is looked for){way}"
    if shares.all_right >= 0.5:
        return f"{wider} (more responses to each problem), or harder problems"
    if shares.all_wrong >= 0.5:
        return f"{grade} (shows how answers are judged); then {wider}, or easier problems"
    return f"{wider} (more responses to each problem)"


def grade_command(run: Path, recipe: Recipe, domain: Domain) -> str:
    """`ictcli grade` on the responses before training, judged as the run does."""
    options: list[str] = []
    if isinstance(domain.verify, Verifier):
        options += ["--kind", domain.verify.name]
    for plugin in recipe.plugins:
        options += ["--plugin", plugin]
    if domain.pattern is not None:
        options += ["--pattern", domain.pattern]
    file = run / "eval" / "before.jsonl"
    return f"ictcli grade {shell_word(file)} {shlex.join([*options, '--explain'])}"
