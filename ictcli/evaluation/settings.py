"""The settings of an evaluation, named as in a recipe."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field

from ictcli.errors import UserError
from ictcli.recipe import apply_overrides, typed_key, validate
from ictcli.recipe.data import (
    ColumnSettings,
    HubSettings,
    Ks,
    PromptSettings,
    RewardSettings,
    distinct,
)
from ictcli.recipe.tables import EngineSettings, SamplingSettings, Table
from ictcli.text import compiled

Temperatures = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...], Field(strict=False), distinct("temperature")
]
"""The type of a setting that lists temperatures without repeats."""
T = TypeVar("T", bound="ModelSettings")
MOST_K = 256
"""Largest k of pass@k if the user does not set k."""

JUDGING = ("verifier", "pattern", "timeout", "memory")
OF_TRAINING = (
    *("prompt.shots", "prompt.max_tokens", "sampling.redraw", "engine.sampler"),
    *(f"reward.{name}" for name in RewardSettings.model_fields if name not in JUDGING),
)
"""Recipe keys that matter only in training, though their tables also matter in evaluations."""


class ModelSettings(Table):
    """How a model is prompted, sampled and judged. Settings that the user does not set come from
    the model's run, else from the defaults of a recipe."""

    seed: int = Field(default=0, ge=0)
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    prompt: PromptSettings = PromptSettings()
    sampling: SamplingSettings = SamplingSettings()
    reward: RewardSettings = RewardSettings()
    engine: EngineSettings = EngineSettings()


class GenerateSettings(ModelSettings):
    """The settings of `ictcli generate`, which answers the user's own prompts."""

    n: int = Field(default=1, ge=1)
    """Number of answers per prompt."""


class EvalKeys(Table):
    """Keys that only `ictcli eval` has."""

    shots: int = Field(default=0, ge=0)
    """Number of worked examples to show, from the benchmark's training split."""


class EvaluationSettings(ModelSettings):
    """The settings of an evaluation, the same for all models. `max_tokens` and `reward` come from
    the benchmark if not set."""

    n: int = Field(default=16, ge=1)
    """Samples per problem."""
    k: Ks = (1, 4)
    """Values of k for pass@k; if not set 1, 2, 4, ... and n, up to 256."""
    temperatures: Temperatures = (0.0,)
    """Further temperatures to evaluate at, with `n` samples per problem, or one at 0."""
    limit: int | None = Field(default=None, ge=1)
    """Number of problems to evaluate, from the first on; None: all."""
    show_private: bool = False
    """Save and show questions that the benchmark's terms forbid to publish."""
    data: str | dict[str, str] | None = None
    """A file to use instead of the hub's data; with several benchmarks, a file for each name."""
    eval: EvalKeys = EvalKeys()
    columns: ColumnSettings = ColumnSettings()
    """The columns of benchmarks that are the user's own data sets."""
    hub: HubSettings = HubSettings()
    """Which part of a data set to read, for benchmarks named `hub:owner/name`."""


def typed_settings(
    kind: type[T],
    command: str,
    overrides: Sequence[str],
    options: Mapping[str, Any],
    hint: str = "",
) -> T:
    """Return the settings of a command from KEY=VALUE overrides and options (None: not given).
    UserError for an unknown key or a wrong value; its hint is the command's --help plus `hint`."""
    hint = f"{command} --help{hint}"
    data: dict[str, Any] = {}
    for key in map(typed_key, overrides):
        if key in OF_TRAINING:
            raise UserError(f"{key} only matters in training.", hint)
    apply_overrides(data, overrides, kind)
    data |= {name: value for name, value in options.items() if value is not None}
    settings = validate(kind, data, command, hint=hint, own=data)
    if settings.reward.pattern is not None:
        compiled(settings.reward.pattern)
    return settings


def curve_of(n: int) -> tuple[int, ...]:
    """Return the default values of k for n samples: 1, 2, 4, ... and n, up to MOST_K."""
    powers = {2**power for power in range(n.bit_length())}
    return tuple(sorted(k for k in {*powers, n} if k <= MOST_K))


def read_settings(overrides: Sequence[str], **options: Any) -> EvaluationSettings:
    """Return the settings of `ictcli eval`. UserError if one is wrong, or if a k is above n."""
    settings = typed_settings(EvaluationSettings, "ictcli eval", overrides, options)
    if "k" not in settings.model_fields_set:
        settings = settings.model_copy(update={"k": curve_of(settings.n)})
    least, most = min(settings.k, default=0), max(settings.k, default=0)
    if least < 1:
        raise UserError(f"There is no pass@{least}.", "--k 1,4: numbers from 1 up")
    if most > settings.n:
        raise UserError(
            f"pass@{most} needs at least {most} samples a problem, not n = {settings.n}.",
            f"--n {most}, or a smaller --k",
        )
    return settings
