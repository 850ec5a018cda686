"""Why a training does not learn, and what to type next: one table of symptoms for `ictcli check`,
the alarms of a run and its end."""

import shlex
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.errors import NothingLearnedError
from ictcli.planning.advice import MemoryCheck
from ictcli.recipe import Recipe
from ictcli.rewards import Verifier
from ictcli.runs import Run
from ictcli.runs.records import Summary, Unlearned
from ictcli.runs.rollouts import Batch
from ictcli.tables.numbers import counted
from ictcli.tasks import Domain
from ictcli.text import shell_word
from ictcli.train.checked import Tried

FEW = 0.2
"""Share of groups with a signal below which most of the sampling is spent for nothing."""
TRIAL = 5
"""A training of fewer steps tries something out, and ends as it should without a gradient."""


@dataclass(frozen=True)
class Symptom:
    """What is wrong, in words, and what helps."""

    sentence: str
    """Without the full stop."""
    setting: str = ""
    """KEY=VALUE to try first."""
    effect: str = ""
    """What that does."""
    more: str = ""
    """What else helps."""

    @property
    def next(self) -> str:
        """What to try, in words."""
        return "; ".join(filter(None, [f"{self.setting} {self.effect}".strip(), self.more]))


SMALLER_STEP = ("lr={slower:g}", "often mends it")
ENTROPY = "at step {step}: {entropy:.3g} nats a token, {first:.3g} at the first"
SYMPTOMS = {
    "truncated": Symptom(
        "{truncated:.0%} of the responses{of_step} are cut at max_tokens={max_tokens}",
        "max_tokens={longer}",
        "gives room for longer ones",
    ),
    "no room": Symptom(
        "{truncated:.0%} of the responses are cut at max_tokens={max_tokens}, and the model's "
        "context has no room for longer ones"
    ),
    "unparsed": Symptom(
        "{unparsed:.0%} of the responses hold no answer that can be read",
        "prompt.shots=2",
        "shows the model how to answer",
        "prompt.suffix or prompt.system can say how to answer, reward.pattern reads another form, "
        "and a few supervised steps (sft.data=FILE) teach it",
    ),
    "all_right": Symptom(
        "{all_right:.0%} of the groups are all right",
        "group={wider}",
        "finds wrong responses too",
        "harder problems teach more",
    ),
    "all_wrong": Symptom(
        "{all_wrong:.0%} of the groups are all wrong",
        "group={wider}",
        "finds more",
        "easier problems, examples (prompt.shots) or a larger model help",
    ),
    "equal": Symptom(
        "{all_right:.0%} of the groups are all right and {all_wrong:.0%} all wrong",
        "group={wider}",
        "takes more responses to each problem",
    ),
    "untrained": Symptom(
        "{label} keeps {kept:.1%} of the tokens, none where rewards differ, as they do in "
        "{signal:.0%} of the groups",
        "method=grpo",
        "trains every token",
    ),
    "forgotten": Symptom(
        "earlier steps had unequal rewards, and now {all_wrong:.0%} of the groups are all wrong",
        *SMALLER_STEP,
    ),
    "sampler": Symptom(
        "log pi of a token is {gap:.2g} nats from that of what sampled it ({sampler}), at step "
        "{step}",
        "engine.sampler=own",
        "samples from the model itself",
    ),
    "decline": Symptom(
        "The share of correct rollouts was {best:.0%} at its best and is {now:.0%} {when}",
        *SMALLER_STEP,
    ),
    "collapse": Symptom(f"Entropy collapse {ENTROPY}", *SMALLER_STEP, "so may a larger kl"),
    "explosion": Symptom(f"Entropy explosion {ENTROPY}", *SMALLER_STEP),
    "solved": Symptom(
        f"Entropy collapse {ENTROPY}",
        more="{correct:.0%} of its rollouts are right, so it may be no fault",
    ),
    "nonfinite": Symptom("{steps} had a loss or gradient that is not finite", *SMALLER_STEP),
}
"""By name. Alarms have the names of their keys in `alarms`."""


def symptom(name: str, recipe: Recipe, **figures: Any) -> Symptom:
    """Return an entry of SYMPTOMS with the recipe's settings and these figures filled in."""
    settings = {
        "max_tokens": recipe.max_tokens,
        "longer": 2 * recipe.max_tokens,
        "wider": 2 * recipe.group,
        "slower": recipe.lr / 2,
        "sampler": recipe.engine.sampler,
        "label": recipe.label,
        "of_step": "",
    }
    return Symptom(*(text.format_map(settings | figures) for text in astuple(SYMPTOMS[name])))


@dataclass(frozen=True)
class Signal:
    """Why groups have equal rewards: shares of responses, then shares of groups."""

    unparsed: float
    truncated: float
    all_right: float
    all_wrong: float


def without_signal(batch: Batch) -> Signal | None:
    """Return the shares of a step; None if the rewards of a group differ."""
    if batch.advantage.any():
        return None
    right = batch.correct.reshape(-1, batch.rollouts.group)
    unparsed = np.mean([verdict.status == "unparsed" for verdict in batch.verdicts])
    truncated = 1 - batch.rollouts.finished.mean()
    shares = unparsed, truncated, right.all(axis=1).mean(), (~right.any(axis=1)).mean()
    return Signal(*map(float, shares))


def mean(steps: Sequence[Signal]) -> Signal:
    """Return the mean shares of some steps."""
    return Signal(*np.mean([astuple(step) for step in steps], axis=0).tolist())


def diagnose(
    recipe: Recipe, signal: Signal, *, room: int | None = None, shots: bool = False
) -> tuple[str, Symptom]:
    """Return why groups have equal rewards, by name and in words. `room`: tokens that the context
    leaves to a response; `shots`: whether the data has responses to show as examples."""
    names = ("truncated", "unparsed", "all_right", "all_wrong")
    name = next((name for name in names if getattr(signal, name) >= 0.5), "equal")
    longer = 2 * recipe.max_tokens if room is None else min(2 * recipe.max_tokens, room)
    if name == "truncated" and longer <= recipe.max_tokens:
        name = "no room"
    cause = symptom(name, recipe, **vars(signal), longer=longer)
    if name == "unparsed" and not shots:
        cause = Symptom(cause.sentence, more=cause.more)
    return name, cause


def advice(run: Path, recipe: Recipe, domain: Domain, signal: Signal) -> tuple[str, str]:
    """Return why groups of a run have equal rewards, and what to type next."""
    name, cause = diagnose(recipe, signal)
    if name not in ("unparsed", "all_wrong"):
        return cause.sentence, cause.next
    grade = grade_command(run, recipe, domain)
    return cause.sentence, f"{grade} (shows how answers are judged); {cause.next}"


def grade_command(run: Path, recipe: Recipe, domain: Domain) -> str:
    """Return `ictcli grade` on the responses before training, judged as the run does."""
    options: list[str] = []
    if isinstance(domain.verify, Verifier):
        options += ["--kind", domain.verify.name]
    for plugin in recipe.plugins:
        options += ["--plugin", plugin]
    if domain.pattern is not None:
        options += ["--pattern", domain.pattern]
    file = run / "eval" / "before.jsonl"
    return f"ictcli grade {shell_word(file)} {shlex.join([*options, '--explain'])}"


def verdict_of(
    recipe: Recipe, memory: MemoryCheck, tried: Tried | None, *, worked: bool
) -> tuple[bool, str, tuple[str, ...]]:
    """Return whether to train, why, and the settings to try first, as `ictcli check` says.
    `worked`: the data has responses to show as examples."""
    if tried is None:
        return False, memory.sentence, memory.settings
    if not tried.finite:
        numbers = "its log-probabilities, loss or gradient are not finite"
        return False, f"This model cannot be trained: {numbers}, before any step.", ()
    groups, sampled = tried.groups, tried.sampled
    rewards = "a correct response" if recipe.rule.of_correct else "unequal rewards"
    counts = f"{groups.with_signal} of {groups.total} groups have {rewards}"
    if groups.with_signal >= FEW * groups.total:
        return True, f"Train: {counts}, and so something to learn from.", ()
    answers = sum(sampled.values()) - sampled["truncated"]
    signal = Signal(
        *(sampled["unparsed"] / answers, sampled["truncated"] / answers),
        *(groups.all_right / groups.total, groups.all_wrong / groups.total),
    )
    shots = worked and not (recipe.prompt.examples or recipe.prompt.shots)
    name, cause = diagnose(recipe, signal, room=tried.room, shots=shots)
    if name == "unparsed" and recipe.sft.data:
        first = "Supervised steps come first, and may change that"
        return True, f"Train: {cause.sentence}. {first}; the evaluation step-000000 will tell.", ()
    begin = f"only {counts}" if groups.with_signal else f"no group has {rewards}"
    more = f" {cause.next[0].upper()}{cause.next[1:]}." if cause.next else ""
    changes = (cause.setting,) if cause.setting else ()
    return False, f"Not yet: {begin}, as {cause.sentence}.{more}", changes


def unlearned(run: Run, recipe: Recipe, domain: Domain) -> Unlearned | None:
    """Return why nothing was learned, where every gradient of a run was 0; else None."""
    steps = list(run.metrics())
    if not steps or any(metrics.grad_norm or not metrics.finite for metrics in steps):
        return None

    def share(name: str) -> float:
        values = [metrics.value(name) for metrics in steps]
        return float(np.mean([value for value in values if value is not None] or [0.0]))

    first = " after the supervised steps" * bool(recipe.sft.data)
    begin, number = f"Nothing was learned{first}, because", counted(len(steps), "step")
    if teaching := share("groups_with_signal"):
        cause = symptom("untrained", recipe, kept=share("share_kept"), signal=teaching)
        sentence = f"{begin} every gradient of {number} was 0: {cause.sentence}."
        return Unlearned(sentence=sentence, hint=cause.next)
    correct = share("correct")  # rewards are equal, so of groups as of responses
    signal = Signal(share("unparsed"), share("truncated"), correct, 1 - correct)
    why, hint = advice(run.folder, recipe, domain, signal)
    sentence = f"{begin} the rewards of a group differed in none of {number}: {why}."
    return Unlearned(sentence=sentence, hint=hint)


def check_learned(summary: Summary) -> None:
    """Raise NothingLearnedError where every gradient of `TRIAL` steps or more was 0."""
    if summary.unlearned and summary.steps >= TRIAL:
        raise NothingLearnedError(summary.unlearned.sentence, summary.unlearned.hint)
