"""The metrics of a step (`StepMetrics`): meanings, units, labels, and where each is shown."""

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
"""Where a metric is shown: the live view, `runs show`, the report of a comparison, and
`kept_tokens` in summary.json."""


@dataclass(frozen=True)
class Metric:
    """A metric's unit, label, and when and where it appears."""

    unit: str = ""
    """The unit; % is a share, which is recorded as a number from 0 to 1."""
    when: When = "every step"
    views: tuple[View, ...] = ()
    label: str = ""
    """A short name, for curves and column heads."""

    @property
    def heading(self) -> str:
        """The label followed by the unit, if any."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


Figure = float | None
Share = Annotated[Figure, Metric("%")]
KeptShare = Annotated[Figure, Metric("%", views=("summary",))]


class StepMetrics(RunRecord):
    """A line of metrics.jsonl. A metric is None if it does not exist for this step."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    step: int
    reward: Annotated[Figure, Metric(views=("live", "show", "compare"), label="mean reward")] = None
    """Mean reward of the responses."""
    reward_std: Annotated[Figure, Metric()] = None
    """Standard deviation of the rewards."""
    correct: Share = None
    """Share of responses judged correct."""
    unparsed: Annotated[Figure, Metric("%", views=("live", "show"), label="unparsed")] = None
    """Share of responses without a readable answer."""
    correct_readable: Share = None
    """Share of correct responses among those with a readable answer."""
    timed_out: Share = None
    """Share of responses that took too long to judge."""
    formatted: Share = None
    """Share of responses in which an answer was found."""
    truncated: Annotated[Figure, Metric("%", views=("live", "show"), label="truncated")] = None
    """Share of responses cut at `max_tokens`."""
    length: Annotated[Figure, Metric("tokens", views=("show", "compare"), label="length")] = None
    """Mean length of the responses."""
    groups_with_signal: Annotated[Figure, Metric("%", views=("show",))] = None
    """Share of the trained groups whose rewards are not all equal."""
    redrawn: Annotated[Figure, Metric("", "redraw", ("show",))] = None
    """Number of responses sampled for prompts that replaced others (`sampling.redraw`)."""
    entropy: Annotated[
        Figure, Metric("nats", views=("live", "show", "compare"), label="Shannon entropy H1")
    ] = None
    """Mean Shannon entropy H1 of the tokens, at temperature 1."""
    renyi2: Annotated[
        Figure, Metric("nats", views=("live", "show", "compare"), label="Rényi-2 entropy H2")
    ] = None
    """Mean Rényi-2 entropy H2 of the tokens, at temperature 1."""
    share_kept: Annotated[
        Figure, Metric("%", views=("live", "show", "compare", "summary"), label="tokens trained")
    ] = None
    """Share of response tokens that are trained."""
    kept_prob: Annotated[Figure, Metric(views=("summary",))] = None
    """Mean probability of the trained tokens."""
    regime_high: KeptShare = None
    """Share of trained tokens with pi > beta: raising their probability lowers H2."""
    regime_low: KeptShare = None
    """Share of trained tokens with pi < beta: raising their probability raises H2."""
    high_low_ratio: Annotated[Figure, Metric(views=("summary",))] = None
    """Number of trained tokens above the batch's median H1, divided by that of the rest."""
    share_kept_positive: Share = None
    """Share of tokens trained in responses with a positive advantage."""
    share_kept_negative: Share = None
    """Share of tokens trained in responses with a negative advantage."""
    uniqueness: Annotated[Figure, Metric("nats", "uniqueness")] = None
    """Mean uniqueness u of the tokens."""
    uniqueness_entropy_spearman: Annotated[Figure, Metric(when="uniqueness")] = None
    """Spearman's rank correlation of u and H1 over the tokens."""
    branch_share: KeptShare = None
    """Share of tokens that are branches: another response of the group is the same up to there and
    continues with a different token."""
    branch_recall: Annotated[Figure, Metric("%", views=("show", "summary"))] = None
    """Share of branches that are trained."""
    branch_precision: KeptShare = None
    """Share of trained tokens that are branches."""
    alone: Share = None
    """Share of tokens whose preceding text occurs in no other response of the group."""
    sure: KeptShare = None
    """Share of tokens with a probability above 0.99."""
    kept_sure: KeptShare = None
    """Share of trained tokens with a probability above 0.99."""
    loss: Annotated[Figure, Metric()] = None
    """Mean loss of the updates."""
    grad_norm: Annotated[Figure, Metric(views=("show", "compare"), label="gradient norm")] = None
    """Mean gradient norm of the updates, before clipping."""
    clip_fraction: Annotated[Figure, Metric("%", views=("show",))] = None
    """Share of trained tokens whose ratio is clipped."""
    kl: Annotated[Figure, Metric("nats", "kl", ("show",))] = None
    """Mean KL divergence from the model before training."""
    updates: Annotated[int | None, Metric()] = None
    """Number of optimiser updates."""
    finite: bool = True
    lr: Annotated[Figure, Metric()] = None
    """Learning rate."""
    sampler_gap: Annotated[Figure, Metric("nats", "gap")] = None
    """Largest difference between the sampler's and the model's log-probability of a token."""

    @property
    def rewards(self) -> dict[str, float]:
        """The mean rewards of single verifiers, by metric name: `reward/NAME`."""
        names = (name for name in self.model_extra or {} if name.startswith("reward/"))
        return {name: value for name in names if (value := self.value(name)) is not None}

    def value(self, name: str) -> float | None:
        """Return a metric by its name, or an evaluation's (eval/pass@1); None if absent."""
        value = getattr(self, name, None)
        return value if isinstance(value, int | float) else None


METRICS: dict[str, Metric] = {
    name: metric
    for name, field in StepMetrics.model_fields.items()
    for metric in field.metadata
    if isinstance(metric, Metric)
}


def known() -> list[str]:
    """Return the names of all metrics, including the means of a plugin's token statistics."""
    means = (name for name, statistic in STATISTICS.items() if statistic.mean)
    return list(dict.fromkeys((*METRICS, *means)))


def shown_in(view: View) -> list[str]:
    """Return the names of the metrics that a view shows."""
    return [name for name, metric in METRICS.items() if view in metric.views]


def direction(wanted: str) -> tuple[str, int]:
    """Return (name, 1), or for `-name` (name, -1): lower is better."""
    return (wanted[1:], -1) if wanted.startswith("-") else (wanted, 1)


def unrecorded(recipe: Recipe, wanted: str) -> tuple[str, str] | None:
    """Return the reason, and a hint, if no checkpoint can be judged by the metric `wanted` because
    the recipe does not record it; else None."""
    name, _ = direction(wanted)
    measured = [f"eval/pass@{k}" for k in recipe.eval.k]
    if name in measured:
        if not 0 < recipe.eval.every < recipe.steps:
            return "is not measured during training", "eval.every=25 evaluates every 25 steps"
        return None
    if name.startswith("eval/"):
        hint = f"the evaluations measure {', '.join(measured)} (eval.k)"
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
        return "is measured at no checkpoint", f"recorded only with: {WHEN[when]}".replace("`", "")
    if name in STATISTICS and name not in recipe.wanted_stats:
        return "is not recorded", "use a method that needs this metric"
    return None
