"""Why a run does not learn, and what to try next: one table of symptoms for `ictcli check`, the
alarms during a run, and its summary."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.errors import NothingLearnedError
from ictcli.evaluation.evaluate import grade_command
from ictcli.evaluation.passk import Interval, mean_interval
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.records import Summary, Unlearned
from ictcli.runs.rollouts import Batch
from ictcli.tables.numbers import counted, shown_share
from ictcli.tasks import Domain

SOME = 0.1
"""If fewer responses than this share end without a readable answer, max_tokens is the cause."""
WIDE = 16
"""If all responses are wrong, a larger group is advised only below this group size."""
REASONED = 128
"""Below this max_tokens there is no room to reason: a short form of answer is advised instead."""
TRIAL = 5
"""A run of fewer steps does not fail if every gradient was 0: it may only be a trial."""


@dataclass(frozen=True)
class Symptom:
    """A fault of training, in words, and advice."""

    sentence: str
    """The fault, without a full stop."""
    setting: str = ""
    """KEY=VALUE to try first."""
    effect: str = ""
    """What the setting does, as a predicate: "trains every token"."""
    more: str = ""
    """Further advice."""

    @property
    def next(self) -> str:
        """Return all advice, in words."""
        return "; ".join(filter(None, [f"{self.setting} {self.effect}".strip(), self.more]))


SMALLER_STEP = ("lr={slower:g}", "often helps")
ENTROPY = "at step {step}: {entropy:.3g} nats per token, {first:.3g} at the first step"
SYMPTOMS = {
    "truncated": Symptom(
        "{truncated}{of_step} are cut at max_tokens={max_tokens}{before}",
        "max_tokens={longer}",
        "gives room for longer responses",
        "{teach} where to end a response",
    ),
    "no room": Symptom(
        "{truncated} are cut at max_tokens={max_tokens}, and the model's context has no room for "
        "longer responses"
    ),
    "unparsed": Symptom(
        "{unread} have no readable answer{cut}",
        "prompt.shots=2",
        "shows the model how to answer",
        "prompt.suffix or prompt.system can say how to answer, reward.pattern can read other forms "
        "of answers, and {teach} the answer format",
    ),
    "no form": Symptom(
        "{unread} have no readable answer{cut}",
        "prompt.suffix='End with one line: Answer: and the answer alone.' "
        "'reward.pattern=Answer: *(.+)'",
        "say how to answer, and extract such answers",
        "{teach} the answer format",
    ),
    "untaught": Symptom(
        "",
        "sft.data=task",
        "first teaches the answer format, by supervised steps on the answers of the task",
        "max_tokens={longer} gives room for longer responses",
    ),
    "all_right": Symptom(
        "{all_right} have only right responses",
        "group={wider}",
        "finds wrong responses too",
        "harder problems teach more",
    ),
    "all_wrong": Symptom(
        "{wrong} are readable but wrong{cut}",
        "group={wider}",
        "samples more responses to each problem",
        "easier problems or a larger model help; {teach} what the examples show",
    ),
    "equal": Symptom(
        "{all_right} have only right responses and {all_wrong} have no right response",
        "group={wider}",
        "samples more responses to each problem",
    ),
    "untrained": Symptom(
        "{label} keeps {kept} of the tokens, but none in groups with unequal rewards ({signal} of "
        "all groups)",
        "method=grpo",
        "trains every token",
    ),
    "forgotten": Symptom(
        "earlier steps had unequal rewards, and now {all_wrong} have no right response",
        *SMALLER_STEP,
    ),
    "sampler": Symptom(
        "the log-probability of a token differs by {gap:.2g} nats between the model and its "
        "sampler ({sampler}), at step {step}",
        "engine.sampler=own",
        "samples from the model itself",
    ),
    "decline": Symptom(
        "The share of correct rollouts was {best} at its best and is {now} {when}", *SMALLER_STEP
    ),
    "collapse": Symptom(f"Entropy collapse {ENTROPY}", *SMALLER_STEP, "a larger kl may help too"),
    "explosion": Symptom(f"Entropy explosion {ENTROPY}", *SMALLER_STEP),
    "solved": Symptom(
        f"Entropy collapse {ENTROPY}",
        more="{correct} of the rollouts are right: a task that is solved leaves little entropy",
    ),
    "sure": Symptom(
        "the model is already sure of many tokens that {label} trains: {kept_sure} of them have "
        "p > 0.99, against {sure} of all tokens",
        "method.max_prob=0.99",
        "leaves out such tokens (methods ict and random)",
    ),
    "nonfinite": Symptom("{steps} had a loss or gradient that is not finite", *SMALLER_STEP),
}
"""Symptoms by name. An alarm has the name of its recipe key `alarms.NAME`."""


def symptom(name: str, recipe: Recipe, **figures: Any) -> Symptom:
    """Return an entry of SYMPTOMS with the recipe's settings and `figures` filled in."""
    taught = "more sft.steps or a larger sft.lr teach"
    settings = {
        "teach": taught if recipe.sft_steps else "supervised steps on examples (sft.data) teach",
        "max_tokens": recipe.max_tokens,
        "longer": 2 * recipe.max_tokens,
        "wider": 2 * recipe.group,
        "slower": recipe.lr / 2,
        "sampler": recipe.engine.sampler,
        "label": recipe.label,
        **dict.fromkeys(("of_step", "before", "cut"), ""),
    }
    return Symptom(*(text.format_map(settings | figures) for text in astuple(SYMPTOMS[name])))


def share_of(share: float, noun: str, total: int = 0) -> str:
    """Return a share in words: `72.0 % of the responses`, or `46 of 64 responses (59-82 %)` with
    the 95 % interval if `total` is given."""
    if not total:
        return f"{shown_share(share)} of the {noun}"
    count = round(share * total)
    interval = share_interval(count, total)
    return f"{count} of {total} {noun} ({100 * interval.low:.0f}-{100 * interval.high:.0f} %)"


def share_interval(count: int, total: int) -> Interval:
    """Return count / total with its Clopper-Pearson 95 % interval, from 0 to 1 if total is 0."""
    if not total:
        return Interval(0.0, 0.0, 1.0)
    return mean_interval(np.repeat([1.0, 0.0], [count, total - count]))


@dataclass(frozen=True)
class Signal:
    """Shares of responses, then of groups, that explain why groups have equal rewards."""

    unparsed: float
    """Responses that ended without a readable answer."""
    truncated: float
    """Responses that were cut at max_tokens before a readable answer."""
    wrong: float
    """Responses with a readable but wrong answer."""
    all_right: float
    all_wrong: float

    def words(self, responses: int = 0, groups: int = 0) -> dict[str, str]:
        """Return the shares in words; with intervals if the total numbers are given."""
        kinds = {"all_right": ("groups", groups), "all_wrong": ("groups", groups)}
        shares: dict[str, float] = {**vars(self), "unread": self.unparsed + self.truncated}
        return {
            name: share_of(share, *kinds.get(name, ("responses", responses)))
            for name, share in shares.items()
        }


def without_signal(batch: Batch) -> Signal | None:
    """Return the shares for the batch of a step; None if the rewards of any group differ."""
    if batch.advantage.any():
        return None
    right = batch.correct.reshape(-1, batch.rollouts.group)
    statuses = np.array([verdict.status for verdict in batch.verdicts])
    unread, cut = statuses == "unparsed", ~batch.rollouts.finished
    shares = (unread & ~cut).mean(), (unread & cut).mean(), (statuses == "wrong").mean()
    return Signal(*map(float, (*shares, right.all(axis=1).mean(), (~right.any(axis=1)).mean())))


def mean(steps: Sequence[Signal]) -> Signal:
    """Return the mean of each share over steps."""
    return Signal(*np.mean([astuple(step) for step in steps], axis=0).tolist())


def diagnose(
    recipe: Recipe,
    signal: Signal,
    *,
    room: int | None = None,
    shots: bool = False,
    teachable: bool = False,
    **words: str,
) -> tuple[str, Symptom]:
    """Return why groups have equal rewards, as a name and a symptom: the most specific cause that
    holds for half of the responses or groups. `room`: tokens that the context leaves for a
    response. `shots`: whether the data has responses to show as examples. `teachable`: whether
    training accepts `sft.data=task`. `words`: the shares as text, instead of `signal.words()`."""
    if (unread := signal.unparsed + signal.truncated) >= 0.5:
        formless = signal.unparsed >= max(1 - unread, SOME)  # most responses that ended
        name = "unparsed" if formless else "truncated"
    else:
        shares = {"all_wrong": signal.wrong, "all_right": signal.all_right}
        name = next((name for name, share in shares.items() if share >= 0.5), "equal")
    longer = 2 * recipe.max_tokens if room is None else min(2 * recipe.max_tokens, room)
    if name == "truncated" and longer <= recipe.max_tokens:
        name = "no room"
    entry = "no form" if name == "unparsed" and not shots else name
    figures = {"before": " before an answer can be read", **signal.words(), **words}
    cause = symptom(entry, recipe, longer=longer, **figures)
    is_cut = entry == "truncated" or (entry == "all_wrong" and "cut" in words)
    is_short = is_cut and recipe.max_tokens < REASONED
    if (is_short or entry == "no form") and not recipe.sft_steps and teachable:
        taught = symptom("untaught", recipe, longer=longer)
        return name, replace(taught, sentence=cause.sentence, more=taught.more * is_short)
    if name == "all_wrong" and recipe.group >= WIDE:
        cause = Symptom(cause.sentence, more=cause.more)
    if entry == "no form" and recipe.reward.pattern:  # a pattern is set, and does not fit
        cause = Symptom(cause.sentence, more=symptom("unparsed", recipe, **figures).more)
    return name, cause


def advice(run: Path, recipe: Recipe, domain: Domain, signal: Signal) -> tuple[str, str]:
    """Return why groups of a run have equal rewards, and what to try next."""
    name, cause = diagnose(recipe, signal)
    if name not in ("unparsed", "all_wrong"):
        return cause.sentence, cause.next
    grade = grade_command(run / "eval" / "before.jsonl", domain, recipe.plugins)
    first = f"{grade} (shows how answers are judged)" if grade else ""
    return cause.sentence, "; ".join(filter(None, [first, cause.next]))


def unlearned(run: Run, recipe: Recipe, domain: Domain) -> Unlearned | None:
    """Return why nothing was learned, if every gradient of a run was 0; else None."""
    steps = list(run.metrics())
    if not steps or any(metrics.grad_norm or not metrics.finite for metrics in steps):
        return None

    def share(name: str) -> float:
        values = [metrics.value(name) for metrics in steps]
        return float(np.mean([value for value in values if value is not None] or [0.0]))

    first = " after the supervised steps" * bool(recipe.sft_steps)
    begin, number = f"Nothing was learned{first}, because", counted(len(steps), "step")
    if teaching := share("groups_with_signal"):
        cause = symptom(
            "untrained", recipe, kept=shown_share(share("share_kept")), signal=shown_share(teaching)
        )
        sentence = f"{begin} every gradient of {number} was 0: {cause.sentence}."
        return Unlearned(sentence=sentence, hint=cause.next)
    correct = share("correct")  # rewards in a group are equal, so this is a share of groups too
    unread, cut = share("unparsed"), min(share("unparsed"), share("truncated"))
    signal = Signal(unread - cut, cut, 1 - correct - unread, correct, 1 - correct)
    why, hint = advice(run.folder, recipe, domain, signal)
    sentence = f"{begin} no group had unequal rewards in {number}: {why}."
    return Unlearned(sentence=sentence, hint=hint)


def check_learned(summary: Summary) -> None:
    """Raise NothingLearnedError if every gradient of a run of `TRIAL` steps or more was 0."""
    if summary.unlearned and summary.steps >= TRIAL:
        raise NothingLearnedError(summary.unlearned.sentence, summary.unlearned.hint)
