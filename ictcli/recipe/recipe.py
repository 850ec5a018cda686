"""The top-level keys of a recipe; those in a table, like `clip.low`, are in `recipe.tables`."""

from pathlib import PurePath
from typing import Any, Literal, Self, cast

from pydantic import Field, PrivateAttr

from ictcli.algorithm.controls import Control
from ictcli.algorithm.methods import Method, Options, ShareOptions, find_method
from ictcli.algorithm.objective import Objective
from ictcli.recipe.data import (
    ColumnSettings,
    EvalSettings,
    HubSettings,
    PromptSettings,
    RewardSettings,
    SftSettings,
)
from ictcli.recipe.tables import (
    AdapterSettings,
    AlarmSettings,
    CheckpointSettings,
    ClipSettings,
    EngineSettings,
    NewAdapters,
    OptimizerSettings,
    RecordSettings,
    RolloutSettings,
    Table,
    UpdateSettings,
)
from ictcli.types import ROW_STATS


class Recipe(Table):
    """All settings of a run. The keys people type most are at the top level, the rest in tables."""

    model: str = Field(min_length=1)
    """Folder, hub id, `builtin:chain` or `builtin:ledger`, or run folder of the model to train."""
    task: str = Field(min_length=1)
    """Task: chain, ledger (-easy, -echo, -drift), gsm8k, math, one of a plugin, a .jsonl, .json,
    .csv or .parquet file, a folder of `save_to_disk` of datasets, `hub:owner/name`, or `gym:NAME`,
    whose options are `task.KEY` (ictcli tasks show gym:NAME)."""
    method: dict[str, Any]
    """Name and options of the method; in TOML also the name alone."""
    steps: int = Field(ge=0)
    """Number of training steps; 0 with `sft.data` alone."""
    seed: int = Field(default=0, ge=0)
    """Seed of every random choice of the run."""
    lr: float = Field(default=1e-6, gt=0)
    """Learning rate."""
    prompts: int = Field(default=16, ge=1)
    """Prompts per step."""
    group: int = Field(default=8, ge=2)
    """Rollouts per prompt."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of the rollouts."""
    max_tokens: int = Field(default=512, ge=1)
    """Maximum response length in tokens."""
    keep: float = Field(default=0.1, gt=0, le=1)
    """Share of tokens to train, for methods that select a share."""
    warmup: int = Field(default=0, ge=0)
    """Number of first steps that train every token, for ict and its controls."""
    control: Control = "none"
    """Control: the weights of the method's tokens go to others, drawn at random. permuted = in the
    same response; position = at the same place of any; mass = anywhere, with equal sum |w A|."""
    kl: float = Field(default=0.0, ge=0)
    """Coefficient of the KL divergence from the model before training; 0 = off."""
    entropy: float = Field(default=0.0, ge=0)
    """Coefficient of the bonus on the entropy at the sampling temperature; 0 = off."""
    data: str | None = None
    """Data to use in place of the task's: a file, a folder of `save_to_disk`, or
    `hub:owner/name`."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `data`, or of the task if that is a file, a folder or `hub:owner/name`."""
    hub: HubSettings = HubSettings()
    """Which part of that to use, if it is `hub:owner/name`; `hub.split` of a folder too."""
    sft: SftSettings = SftSettings()
    """Supervised steps before training."""
    reward: RewardSettings = RewardSettings()
    """How responses are judged and rewarded; in TOML also the verifier alone."""
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    """Python files that add methods, verifiers, tasks or benchmarks."""
    clip: ClipSettings = ClipSettings()
    """Clip range of the ratio."""
    update: UpdateSettings = UpdateSettings()
    """Optimiser updates per step."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """AdamW, gradient clipping and the learning rate schedule."""
    sampling: RolloutSettings = RolloutSettings()
    """Cuts of the sampling distribution, and prompts drawn again."""
    prompt: PromptSettings = PromptSettings()
    """How a question becomes the model's prompt."""
    eval: EvalSettings = EvalSettings()
    """Evaluation on held-out problems."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """When checkpoints are written, and which are kept."""
    record: RecordSettings = RecordSettings()
    """What is recorded besides the metrics of every step."""
    alarms: AlarmSettings = AlarmSettings()
    """Reactions to entropy collapse and explosion, to no signal and to non-finite numbers."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = Field(default=(), strict=False)
    """Trackers to send metrics to (`ictcli.tracking`); metrics.jsonl is always written."""
    adapter: AdapterSettings = AdapterSettings()
    """Low-rank adapters, in place of training all weights."""
    engine: EngineSettings = EngineSettings()
    """Where and how the model runs."""

    @property
    def adapters(self) -> NewAdapters | None:
        """The adapters to train, with the run's seed; None to train all weights."""
        if self.adapter.kind == "none":
            return None
        return NewAdapters(**self.adapter.model_dump(), seed=self.seed)

    _left_out: tuple[str, ...] = PrivateAttr(default=())

    def options(self) -> Options:
        """Return the method's validated options, `keep` filled in."""
        values = {key: value for key, value in self.method.items() if key != "name"}
        options = self.rule.options.model_validate(values)
        if isinstance(options, ShareOptions) and options.keep is None:
            options = options.model_copy(update={"keep": self.keep})
        return options

    @property
    def rule(self) -> Method:
        """The method that the recipe names."""
        return find_method(cast(str, self.method["name"]))

    @property
    def data_name(self) -> str:
        """Return the name of the problems (`data_name`)."""
        return data_name(self.task, self.data)

    @property
    def label(self) -> str:
        """The method's name, and any control it is trained as: `ict (permuted)`."""
        return labelled(self.rule.name, self.control, self.reward.signal)

    @property
    def wanted_stats(self) -> tuple[str, ...]:
        """The token statistics that the method and the diagnostics need."""
        extra = ("uniqueness",) if self.record.uniqueness else ()
        return tuple(dict.fromkeys((*ROW_STATS, *self.rule.wants, *self.options().wants, *extra)))

    @property
    def has_sampler_gap(self) -> bool:
        """Return whether the first update compares log pi with what sampled."""
        return 0 < self.update.minibatch < self.prompts or self.engine.off_policy

    @property
    def dense_steps(self) -> int:
        """Number of first steps that train every token, where the method has such a warm-up."""
        return min(self.warmup, self.steps) if self.rule.dense_warmup else 0

    @property
    def objective(self) -> Objective:
        """Clip range, coefficients and temperature of the loss."""
        clip = self.clip
        return Objective(clip.low, clip.high, self.kl, self.entropy, self.temperature, clip.on)

    @property
    def sft_lr(self) -> float:
        """Return the learning rate of supervised steps."""
        return self.sft.lr or (2e-5 if self.adapter.kind == "none" else 2e-4)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the keys of the recipe file that another task left out."""
        return self._left_out

    def without(self, keys: tuple[str, ...]) -> Self:
        """Return the recipe, with these keys as those left out."""
        recipe = self.model_copy()
        recipe._left_out = keys
        return recipe

    def with_engine(self, **settings: Any) -> Self:
        """Return the recipe with other engine settings."""
        return self.model_copy(update={"engine": self.engine.model_copy(update=settings)})

    def lr_at(self, step: int) -> float:
        """Return the learning rate at step 1, 2, ..."""
        return self.lr * self.optimizer.lr_factor(step, self.steps)


def data_name(task: str, data: str | None) -> str:
    """Return the name of a run's problems: the user's file or folder, `hub:owner/name`, or the
    task."""
    name = data or task
    return name if name.startswith("hub:") else PurePath(name).name


def labelled(method: str, control: object, signal: object) -> str:
    """Return a name of a method with the controls that are on."""
    off = ("none", "true reward", "True reward")
    on = [each for each in (str(control), f"{signal} reward") if each not in off]
    return f"{method} ({', '.join(on)})" if on else method
