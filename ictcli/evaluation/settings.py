"""What decides an evaluation besides its models and benchmarks: a recipe's own tables and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from ictcli.errors import UserError
from ictcli.recipe import apply_override, validate
from ictcli.recipe.patterns import compiled
from ictcli.recipe.settings import (
    ColumnSettings,
    EngineSettings,
    HubSettings,
    PromptSettings,
    RewardSettings,
    SamplingSettings,
    Table,
)

OF_TRAINING = (
    *("prompt.shots", "prompt.max_tokens", "reward.correct", "reward.format"),
    *("reward.overlong", "reward.overlong_buffer", "reward.length"),
)
"""Keys of the tables below that an evaluation does not read."""


class EvaluationSettings(Table):
    """The same for all models. Without a value the model's run decides, or the default of a recipe;
    of `max_tokens` and `reward` the benchmark."""

    n: int = Field(default=16, ge=1)
    """Samples a problem."""
    k: tuple[int, ...] = Field(default=(1, 4), strict=False)
    limit: int | None = Field(default=None, ge=1)
    """The first problems only."""
    show_private: bool = False
    """Keep and show questions that the terms of their data forbid to spread."""
    seed: int = Field(default=0, ge=0)
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    data: str | dict[str, str] | None = None
    """A file in place of the hub's data of the only benchmark, or of each by name."""
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    columns: ColumnSettings = ColumnSettings()
    """Of benchmarks that are data sets of one's own."""
    hub: HubSettings = HubSettings()
    """Of benchmarks that are `hub:owner/name`."""
    prompt: PromptSettings = PromptSettings()
    sampling: SamplingSettings = SamplingSettings()
    reward: RewardSettings = RewardSettings()
    engine: EngineSettings = EngineSettings()


def read_settings(overrides: Sequence[str], **options: Any) -> EvaluationSettings:
    """Settings from KEY=VALUE and the options that were typed (not None). UserError for a key or a
    value that cannot be, or where pass@k cannot be had of n samples."""
    data: dict[str, Any] = {}
    for override in overrides:
        apply_override(data, override)
        if (key := override.partition("=")[0].strip()) in OF_TRAINING:
            raise UserError(f"{key} is a matter of training.", "ictcli eval --help")
    data |= {name: value for name, value in options.items() if value is not None}
    settings = validate(EvaluationSettings, data, "ictcli eval", hint="ictcli eval --help")
    least, most = min(settings.k, default=0), max(settings.k, default=0)
    if least < 1:
        raise UserError(f"There is no pass@{least}.", "--k 1,4: numbers from 1 up")
    if most > settings.n:
        raise UserError(
            f"pass@{most} needs at least {most} samples a problem, not n = {settings.n}.",
            f"--n {most}, or a smaller --k",
        )
    if settings.reward.pattern is not None:
        compiled(settings.reward.pattern)
    return settings
