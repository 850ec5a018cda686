"""The recipe: everything that decides a run.

The keys people type most stand at the top level, the rest in tables (`ictcli.recipe.settings`).
"""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import Field

from ictcli.algorithm.methods import Method, Options, ShareOptions, find_method
from ictcli.algorithm.objective import Objective
from ictcli.recipe.settings import (
    AdapterSettings,
    AlarmSettings,
    CheckpointSettings,
    ClipSettings,
    ColumnSettings,
    EngineSettings,
    EvalSettings,
    HubSettings,
    OptimizerSettings,
    PromptSettings,
    RecordSettings,
    RewardSettings,
    SamplingSettings,
    Table,
    UpdateSettings,
)
from ictcli.types import ROW_STATS


class Recipe(Table):
    """A run. `docs` of each key: README, "The recipe"."""

    model: str
    task: str
    method: dict[str, Any]
    """The method's name and options; a bare string in TOML is the name alone."""
    steps: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)
    lr: float = Field(default=1e-6, gt=0)
    prompts: int = Field(default=16, ge=1)
    group: int = Field(default=8, ge=2)
    temperature: float = Field(default=1.0, gt=0)
    max_tokens: int = Field(default=512, ge=1)
    keep: float = Field(default=0.1, gt=0, le=1)
    warmup: int = Field(default=0, ge=0)
    kl: float = Field(default=0.0, ge=0)
    entropy: float = Field(default=0.0, ge=0)
    data: str | None = None
    """A file in place of the task's data on the hub."""
    columns: ColumnSettings = ColumnSettings()
    """Of a task that is a file or `hub:owner/name`."""
    hub: HubSettings = HubSettings()
    """Of a task that is `hub:owner/name`."""
    curriculum: Literal["none", "length", "difficulty"] = "none"
    """The order of the first epoch: by the length of the question in characters, or by
    `columns.difficulty` (MATH: the level), the least first."""
    reward: RewardSettings = RewardSettings()
    """A bare string in TOML is the verifier alone."""
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    clip: ClipSettings = ClipSettings()
    update: UpdateSettings = UpdateSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    sampling: SamplingSettings = SamplingSettings()
    prompt: PromptSettings = PromptSettings()
    eval: EvalSettings = EvalSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    record: RecordSettings = RecordSettings()
    alarms: AlarmSettings = AlarmSettings()
    log: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = Field(default=(), strict=False)
    """Trackers that get the figures too (`ictcli.tracking`); metrics.jsonl is always written."""
    adapter: AdapterSettings = AdapterSettings()
    engine: EngineSettings = EngineSettings()

    @property
    def adapters(self) -> AdapterSettings | None:
        """What the engine is to train on top of the model, if anything."""
        if self.adapter.kind == "none":
            return None
        seed = self.seed if self.adapter.seed is None else self.adapter.seed
        return self.adapter.model_copy(update={"seed": seed})

    def options(self) -> Options:
        """The method's validated options, `keep` filled in."""
        given = {key: value for key, value in self.method.items() if key != "name"}
        options = self.rule.options.model_validate(given)
        if isinstance(options, ShareOptions) and options.keep is None:
            options = options.model_copy(update={"keep": self.keep})
        return options

    @property
    def rule(self) -> Method:
        return find_method(cast(str, self.method["name"]))

    @property
    def wanted_stats(self) -> tuple[str, ...]:
        """The token statistics that the method or the diagnostics want."""
        extra = ("uniqueness",) if self.record.uniqueness else ()
        return tuple(dict.fromkeys((*ROW_STATS, *self.rule.wants, *extra)))

    @property
    def objective(self) -> Objective:
        return Objective(self.clip.low, self.clip.high, self.kl, self.entropy, self.temperature)

    def lr_at(self, step: int) -> float:
        """Learning rate of step 1, 2, ..."""
        return self.lr * self.optimizer.lr_factor(step, self.steps)
