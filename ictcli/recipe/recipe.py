"""The top-level keys of a recipe. Keys in a table, like `clip.low`, are in `recipe.tables`."""

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
    """All settings of a run: the most used keys at the top level, the others in tables."""

    model: str = Field(min_length=1)
    """Model to train: a folder, a hub id, `builtin:chain`, `builtin:ledger`, or an earlier run."""
    task: str = Field(min_length=1)
    """Problems to train on: chain, ledger (-easy, -echo, -drift), gsm8k, math, a plugin's task, a
    .jsonl, .json, .csv or .parquet file, a folder saved by datasets' `save_to_disk`,
    `hub:owner/name`, or `gym:NAME` with options `task.KEY` (ictcli tasks show gym:NAME)."""
    method: dict[str, Any]
    """Training method: a name, or a table of its name and options (ictcli methods)."""
    steps: int = Field(ge=0)
    """Number of RL steps; 0 is allowed only with `sft.data`."""
    seed: int = Field(default=0, ge=0)
    """Seed of all random numbers in the run."""
    lr: float = Field(default=1e-6, gt=0)
    """Learning rate."""
    prompts: int = Field(default=16, ge=1)
    """Number of prompts per step."""
    group: int = Field(default=8, ge=2)
    """Number of rollouts per prompt."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of the rollouts."""
    max_tokens: int = Field(default=512, ge=1)
    """Maximum response length in tokens."""
    keep: float = Field(default=0.1, gt=0, le=1)
    """Share of response tokens to train, for methods that select a share."""
    warmup: int = Field(default=0, ge=0)
    """Number of initial steps that train every token, for ict and its controls."""
    control: Control = "none"
    """Control experiment: assign the method's token weights to random tokens instead.
    permuted = of the same response; position = at the same position in any response; mass = of any
    response, keeping the sum of |weight x advantage|."""
    kl: float = Field(default=0.0, ge=0)
    """Coefficient of the KL penalty against the model before training; 0 = off."""
    entropy: float = Field(default=0.0, ge=0)
    """Coefficient of the entropy bonus, at the sampling temperature; 0 = off."""
    data: str | None = None
    """Data to use instead of the task's: a file, a `save_to_disk` folder, or `hub:owner/name`."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `data`, or of `task` if it is a file, a folder or `hub:owner/name`."""
    hub: HubSettings = HubSettings()
    """Part to use of `data` or `task` if it is `hub:owner/name`, or a folder (`hub.split` only)."""
    sft: SftSettings = SftSettings()
    """Supervised steps before training."""
    reward: RewardSettings = RewardSettings()
    """How responses are judged and rewarded: a verifier's name, or a table."""
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    """Python files to load, which add methods, verifiers, tasks or benchmarks."""
    clip: ClipSettings = ClipSettings()
    """Clip range of the probability ratio."""
    update: UpdateSettings = UpdateSettings()
    """Optimiser updates per step."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """AdamW, gradient clipping and the learning rate schedule."""
    sampling: RolloutSettings = RolloutSettings()
    """Top-p and top-k sampling, and replacement of prompts without signal."""
    prompt: PromptSettings = PromptSettings()
    """How a question becomes the model's prompt."""
    eval: EvalSettings = EvalSettings()
    """Evaluation on held-out problems."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """When checkpoints are written, and which of them are kept."""
    record: RecordSettings = RecordSettings()
    """What is recorded in addition to the metrics of every step."""
    alarms: AlarmSettings = AlarmSettings()
    """What to do when training goes wrong, such as when the entropy collapses."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = Field(default=(), strict=False)
    """Trackers to send metrics to; metrics.jsonl is always written."""
    adapter: AdapterSettings = AdapterSettings()
    """Low-rank adapters, to train instead of all weights."""
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
        """Return the method's validated options; its `keep` defaults to the recipe's."""
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
        """Return the name of the data set, as the function `data_name` does."""
        return data_name(self.task, self.data)

    @property
    def label(self) -> str:
        """The method's name, followed by its control, if any: `ict (permuted)`."""
        return labelled(self.rule.name, self.control, self.reward.signal)

    @property
    def wanted_stats(self) -> tuple[str, ...]:
        """The token statistics that the method and the diagnostics need."""
        extra = ("uniqueness",) if self.record.uniqueness else ()
        return tuple(dict.fromkeys((*ROW_STATS, *self.rule.wants, *self.options().wants, *extra)))

    @property
    def has_sampler_gap(self) -> bool:
        """Whether a step's first update compares its log-probabilities with the sampler's."""
        return 0 < self.update.minibatch < self.prompts or self.engine.off_policy

    @property
    def dense_steps(self) -> int:
        """Number of initial steps that train every token; 0 if the method has no warm-up."""
        return min(self.warmup, self.steps) if self.rule.dense_warmup else 0

    @property
    def objective(self) -> Objective:
        """Clip range, coefficients and temperature of the loss."""
        clip = self.clip
        return Objective(clip.low, clip.high, self.kl, self.entropy, self.temperature, clip.on)

    @property
    def sft_steps(self) -> int:
        """Return the number of supervised steps before reinforcement learning."""
        return self.sft.steps if self.sft.data else 0

    @property
    def sft_lr(self) -> float:
        """Return the learning rate of supervised steps."""
        return self.sft.lr or (2e-5 if self.adapter.kind == "none" else 2e-4)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The keys of the recipe file that were removed because another task was set."""
        return self._left_out

    def without(self, keys: tuple[str, ...]) -> Self:
        """Return the recipe with `left_out` set to these keys."""
        recipe = self.model_copy()
        recipe._left_out = keys
        return recipe

    def with_engine(self, **settings: Any) -> Self:
        """Return the recipe with these engine settings changed."""
        return self.model_copy(update={"engine": self.engine.model_copy(update=settings)})

    def lr_at(self, step: int) -> float:
        """Return the learning rate at a step, counted from 1."""
        return self.lr * self.optimizer.lr_factor(step, self.steps)


def data_name(task: str, data: str | None) -> str:
    """Return a data set's name: the user's file or folder, `hub:owner/name`, or the task."""
    name = data or task
    return name if name.startswith("hub:") else PurePath(name).name


def labelled(method: str, control: object, signal: object) -> str:
    """Return the method's name, followed by the controls of the run: `ict (permuted)`."""
    off = ("none", "true reward", "True reward")
    controls = [name for name in (str(control), f"{signal} reward") if name not in off]
    return f"{method} ({', '.join(controls)})" if controls else method
