"""The metrics of a step: what each is, its unit, when it is recorded and where it is shown.

`StepMetrics` is the one list of them: the console, the report of a comparison, the reference and
the choice of the best checkpoint are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict

from ictcli.algorithm.quantities import STATISTICS
from ictcli.errors import nearest
from ictcli.files.record import RunRecord

if TYPE_CHECKING:
    from ictcli.recipe import Recipe

When = Literal["every step", "uniqueness", "kl", "gap", "redraw"]
WHEN: dict[When, str] = {
    "every step": "every step",
    "uniqueness": "methods that need u, or `record.uniqueness`",
    "kl": "`kl` > 0",
    "gap": "`update.minibatch`, or `engine.sampler=vllm`",
    "redraw": "`sampling.redraw` > 0",
}
View = Literal["live", "show", "compare", "summary"]
"""The live view, `runs show`, the report of a comparison, and `kept_tokens` of summary.json."""


@dataclass(frozen=True)
class Metric:
    """The properties of a metric besides its meaning."""

    unit: str = ""
    """%: a share, which is recorded as a number from 0 to 1."""
    when: When = "every step"
    views: tuple[View, ...] = ()
    label: str = ""
    """A few words for the heads of curves and columns."""

    @property
    def heading(self) -> str:
        """The label and the unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


Figure = float | None
Share = Annotated[Figure, Metric("%")]
KeptShare = Annotated[Figure, Metric("%", views=("summary",))]


class StepMetrics(RunRecord):
    """A line of metrics.jsonl. None: the figure does not exist for this step."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    step: int
    reward: Annotated[Figure, Metric(views=("live", "show", "compare"), label="mean reward")] = None
    """Mean reward of the responses."""
    reward_std: Annotated[Figure, Metric()] = None
    """Standard deviation of the rewards."""
    correct: Share = None
    """Responses judged correct."""
    unparsed: Annotated[Figure, Metric("%", views=("live", "show"), label="unparsed")] = None
    """Responses without a readable answer."""
    correct_readable: Share = None
    """Responses judged correct, of those with a readable answer."""
    timed_out: Share = None
    """Responses whose judging took too long."""
    formatted: Share = None
    """Responses that give any answer."""
    truncated: Annotated[Figure, Metric("%", views=("live", "show"), label="truncated")] = None
    """Responses that reached `max_tokens`."""
    length: Annotated[Figure, Metric("tokens", views=("show", "compare"), label="length")] = None
    """Mean length of the responses."""
    groups_with_signal: Annotated[Figure, Metric("%", views=("show",))] = None
    """Groups trained whose rewards are not all equal."""
    redrawn: Annotated[Figure, Metric("", "redraw", ("show",))] = None
    """Responses sampled for prompts drawn again."""
    entropy: Annotated[
        Figure,
        Metric("nats", views=("live", "show", "compare"), label="Shannon entropy H1"),
    ] = None
    """Mean Shannon entropy H1 of the tokens, at temperature 1."""
    renyi2: Annotated[
        Figure,
        Metric("nats", views=("live", "show", "compare"), label="Rényi-2 entropy H2"),
    ] = None
    """Mean Rényi-2 entropy H2 of the tokens, at temperature 1."""
    share_kept: Annotated[
        Figure, Metric("%", views=("live", "show", "compare", "summary"), label="tokens trained")
    ] = None
    """Tokens that are trained."""
    kept_prob: Annotated[Figure, Metric(views=("summary",))] = None
    """Mean probability of the trained tokens."""
    regime_high: KeptShare = None
    """Trained tokens of which raising the probability lowers H2: pi > beta."""
    regime_low: KeptShare = None
    """Trained tokens of which raising the probability raises H2: pi < beta."""
    high_low_ratio: Annotated[Figure, Metric(views=("summary",))] = None
    """Trained tokens above the batch's median H1 for each one not above it."""
    share_kept_positive: Share = None
    """Tokens trained of responses with a positive advantage."""
    share_kept_negative: Share = None
    """Tokens trained of responses with a negative advantage."""
    uniqueness: Annotated[Figure, Metric("nats", "uniqueness")] = None
    """Mean uniqueness u of the tokens."""
    uniqueness_entropy_spearman: Annotated[Figure, Metric(when="uniqueness")] = None
    """Spearman's rank correlation of u and H1 over the tokens."""
    branch_share: KeptShare = None
    """Branches: tokens at which another response of the group has the same text so far, and then
    another token."""
    branch_recall: Annotated[Figure, Metric("%", views=("show", "summary"))] = None
    """Branches that are trained."""
    branch_precision: KeptShare = None
    """Trained tokens that are branches."""
    alone: Share = None
    """Tokens whose response so far no other response of the group shares."""
    sure: KeptShare = None
    """Tokens of a probability above 0.99."""
    kept_sure: KeptShare = None
    """Trained tokens of a probability above 0.99."""
    loss: Annotated[Figure, Metric()] = None
    """Mean loss of the updates."""
    grad_norm: Annotated[Figure, Metric(views=("show", "compare"), label="gradient norm")] = None
    """Mean gradient norm of the updates, before it is clipped."""
    clip_fraction: Annotated[Figure, Metric("%", views=("show",))] = None
    """Trained tokens whose ratio is clipped."""
    kl: Annotated[Figure, Metric("nats", "kl", ("show",))] = None
    """Mean divergence from the model before training."""
    updates: Annotated[int | None, Metric()] = None
    """Optimiser updates made."""
    finite: bool = True
    lr: Annotated[Figure, Metric()] = None
    """Learning rate."""
    sampler_gap: Annotated[Figure, Metric("nats", "gap")] = None
    """Largest difference of the sampler's log-probabilities from the trained model's, at the first
    update."""

    @property
    def rewards(self) -> dict[str, float]:
        """The mean of each reward function and of the judge, by metric: `reward/NAME`; without
        those that gave none."""
        names = (name for name in self.model_extra or {} if name.startswith("reward/"))
        return {name: value for name in names if (value := self.value(name)) is not None}

    def value(self, name: str) -> float | None:
        """Return a figure by its name, those of an evaluation (eval/pass@1) included."""
        value = getattr(self, name, None)
        return value if isinstance(value, int | float) else None


METRICS: dict[str, Metric] = {
    name: metric
    for name, field in StepMetrics.model_fields.items()
    for metric in field.metadata
    if isinstance(metric, Metric)
}


def known() -> list[str]:
    """Return all names, with the means of statistics that a plugin has added."""
    means = (name for name, each in STATISTICS.items() if each.mean)
    return list(dict.fromkeys((*METRICS, *means)))


def shown_in(view: View) -> list[str]:
    """Return the names of the metrics that a view shows."""
    return [name for name, metric in METRICS.items() if view in metric.views]


def direction(wanted: str) -> tuple[str, int]:
    """Return (name, 1), or (name, -1) for `-name`: lower is better."""
    return (wanted[1:], -1) if wanted.startswith("-") else (wanted, 1)


def unrecorded(recipe: Recipe, wanted: str) -> tuple[str, str] | None:
    """Return why a recipe can judge no checkpoint by a metric, and a hint; None if it can, as far
    as the recipe alone tells."""
    name, _ = direction(wanted)
    measured = [f"eval/pass@{k}" for k in recipe.eval.k]
    if name in measured:
        if not 0 < recipe.eval.every < recipe.steps:
            return "is not measured between the steps", "eval.every=25 evaluates every 25 steps"
        return None
    if name.startswith("eval/"):
        hint = f"they measure {', '.join(measured)} (eval.k)"
        return "is not measured by the evaluations", hint
    if name.startswith("reward/") and name.removeprefix("reward/") in recipe.reward.names:
        return None
    if name not in known():
        near = nearest(name, [*known(), *measured])
        return f"is not a number in metrics.jsonl{near}", "for example eval/pass@1"
    recorded = {
        "kl": recipe.kl > 0,
        "redraw": recipe.sampling.redraw > 0,
        "gap": recipe.has_sampler_gap,
        "uniqueness": "uniqueness" in recipe.wanted_stats,
    }
    if name in METRICS and not recorded.get(when := METRICS[name].when, True):
        return "is measured at no checkpoint", f"recorded at or with: {WHEN[when]}".replace("`", "")
    if name in STATISTICS and name not in recipe.wanted_stats:
        return "is not recorded", "a method that wants it"
    return None
