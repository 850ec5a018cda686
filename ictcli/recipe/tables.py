"""The tables of a recipe, like `[clip]`: one frozen model each, with defaults and bounds."""

import math
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ictcli.algorithm.registry import Settings
from ictcli.recipe.keys import takes_text, toml_value


class Table(Settings):
    @field_validator("*", mode="before")
    @classmethod
    def _listed(cls, value: Any, info: ValidationInfo) -> Any:
        """Accept a list that is given as one value, or as text with commas between."""
        name = info.field_name or ""
        kind = cls.model_fields[name].annotation
        is_list = tuple in map(get_origin, (kind, *get_args(kind)))
        if not is_list or value is None or type(value) in (list, tuple):
            return value
        is_text, texts = takes_text(cls, name), value.split(",") if isinstance(value, str) else []
        return [toml_value(text, is_text) for text in texts] or [value]


class EngineSettings(Table):
    """Where and how the model runs."""

    backend: Literal["auto", "torch", "mlx"] = "auto"
    """Engine: torch, mlx, or auto = the best one installed."""
    device: str = "auto"
    """Device: auto, cpu; of the torch engine cuda, cuda:1 or mps; of MLX gpu."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the weights; auto = 16 bits on a GPU, float32 on a CPU, where bfloat16
    saves memory but rounds. Adapters and statistics are always float32."""
    kernels: Literal["auto", "avx2", "avx512", "onednn", "plain"] = "auto"
    """Library for the products of large layers on a CPU (torch engine); auto = avx512 or avx2 if
    Linux says that an x86 CPU has it, onednn on another x86, else plain = PyTorch's choice
    (docs/speed.md). A run resumes with the kernels it began with."""
    threads: int = Field(default=0, ge=0, le=1024)
    """Number of CPU threads; 0 = the engine's default."""
    rows: int = Field(default=512, ge=1)
    """Maximum number of rows decoded at once, rounded down to whole groups (at least one group)."""
    context: int = Field(default=0, ge=0)
    """Maximum number of tokens of a sequence, prompt and response together; 0 = the model's,
    which with LongRoPE (Phi-3) is its original length."""
    micro_tokens: int = Field(default=2048, ge=1)
    """Maximum number of prompt and response tokens per forward and backward pass. Changes memory,
    not results. With PyTorch on a CPU below LoRA, passes of a large model's update take fewer."""
    gradient_checkpointing: bool = False
    """Keep one activation per layer and recompute the others in the backward pass."""
    memory_limit: float = Field(default=0.0, ge=0)
    """Device memory limit in GiB; a run that needs more stops with an error. 0 = the limit that the
    device recommends, if it has one."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Fuse kernels (MLX), or decode by CUDA graphs (PyTorch on a CUDA GPU); auto = on a GPU."""
    load_in_4bit: bool = False
    """Round the model's weights to 4 bits while loading, to train adapters on top: NF4 of
    bitsandbytes on a CUDA GPU, mlx-lm's packing on a Mac."""
    trust_remote_code: bool = False
    """Run Python code that a model folder brings along."""
    shard: bool = False
    """Spread weights, gradients and moments over the processes of a launch (torch engine); each has
    all weights while it samples and evaluates."""
    sampler: Literal["own", "vllm"] = "own"
    """Sampler of the rollouts: own = the model that is trained; vllm = vLLM (torch engine,
    docs/scale.md), where the loss weighs each token by min(pi_old / pi_sampler, 2). Evaluations are
    of the model itself."""

    @property
    def off_policy(self) -> bool:
        """Return whether another policy samples than is trained."""
        return self.sampler != "own"


class AdapterSettings(Table):
    """Low-rank adapters (arXiv 2106.09685), trained in place of the model's own weights."""

    kind: Literal["none", "lora"] = "none"
    """none = train all weights; lora = train low-rank adapters."""
    rank: int = Field(default=16, ge=1)
    """Rank of the adapters."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale: the adapter's product is multiplied by alpha / rank."""
    layers: int = Field(default=0, ge=0)
    """Number of final blocks to adapt; 0 = all."""
    targets: tuple[str, ...] = Field(default=(), strict=False)
    """Names of the linear layers to adapt, like q_proj; empty = all in the blocks."""


class NewAdapters(AdapterSettings):
    """Adapters to put on a model."""

    seed: int = 0
    """Seed of their initial values."""


class OptimizerSettings(Table):
    """AdamW, gradient clipping and the learning rate schedule."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the first moment."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the second moment."""
    eps: float = Field(default=1e-8, gt=0)
    """Term added to the denominator for numerical stability."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Maximum global L2 norm of the gradient; a larger one is scaled down to it."""
    lr_warmup: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly to `lr`."""
    lr_hold: int = Field(default=0, ge=0)
    """Steps at `lr` after the warmup, before the decay."""
    decay: Literal["none", "linear", "cosine", "inverse"] = "none"
    """Decay after that. linear and cosine reach 0 at the last step; inverse is lr_hold / t, with t
    counted from the end of the warmup; none = constant."""

    @model_validator(mode="after")
    def _inverse_needs_hold(self) -> Self:
        if self.decay == "inverse" and self.lr_hold == 0:
            raise ValueError("an inverse decay needs lr_hold, the steps before it falls")
        return self

    def lr_factor(self, step: int, steps: int) -> float:
        """Return the learning rate as a share of `lr`, at step 1, 2, ... of `steps`."""
        t = step - self.lr_warmup
        if t <= 0:
            return step / self.lr_warmup
        if t <= self.lr_hold or self.decay == "none":
            return 1.0
        if self.decay == "inverse":
            return self.lr_hold / t
        falling = max(steps - self.lr_warmup - self.lr_hold, 1)
        done = min((t - 1 - self.lr_hold) / falling, 1.0)
        return 1.0 - done if self.decay == "linear" else (1.0 + math.cos(math.pi * done)) / 2


class ClipSettings(Table):
    """The clip range of the ratio: [1 - low, 1 + high]; on tv, that of pi - pi_old."""

    low: float = Field(default=0.2, ge=0, le=1)
    """Clip distance below 1; 1 is off."""
    high: float = Field(default=0.2, ge=0)
    """Clip distance above 1."""
    on: Literal["ratio", "tv"] = "ratio"
    """Quantity to clip: the ratio, or the total variation of the token against all others, which is
    |pi - pi_old| (DPPO, arXiv 2602.04879)."""


class UpdateSettings(Table):
    """How a batch of rollouts becomes optimiser updates."""

    epochs: int = Field(default=1, ge=1)
    """Passes over each batch of rollouts."""
    minibatch: int = Field(default=0, ge=0)
    """Prompts per optimiser update; 0 = all prompts of the step."""


class SamplingSettings(Table):
    """Cuts of the sampling distribution."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of tokens with this total probability; 1 = all tokens."""
    top_k: int = Field(default=0, ge=0)
    """Sample from the k most probable tokens; 0 = all tokens."""


class RolloutSettings(SamplingSettings):
    """Cuts of the sampling distribution, and prompts drawn again."""

    redraw: int = Field(default=0, ge=0)
    """Maximum number of times in a step that prompts with equal rewards are replaced by others
    (dynamic sampling, arXiv 2503.14476); 0 = never. Each time costs their rollouts."""


class CheckpointSettings(Table):
    """When checkpoints are written, and which are kept."""

    every: int = Field(default=25, ge=1)
    """Steps between checkpoints."""
    last: int = Field(default=2, ge=1)
    """Number of most recent checkpoints to keep, besides the best one."""
    best: str | None = Field(default=None, min_length=1)
    """Metric that decides the best checkpoint, like eval/pass@1; -NAME = lower is better. Default:
    no best checkpoint is kept."""


class RecordSettings(Table):
    """What is recorded besides the metrics of every step."""

    rollouts_every: int = Field(default=10, ge=0)
    """Steps between recorded batches of rollouts, with their token statistics; the last step's are
    recorded too. 0 = never."""
    uniqueness: bool = False
    """Record the uniqueness u of tokens even if the method does not need it."""


class AlarmSettings(Table):
    """Reactions to signs of trouble: warn, stop, or off."""

    collapse: Literal["warn", "stop", "off"] = "warn"
    """Mean entropy H1 under a tenth of its value at the first step."""
    explosion: Literal["warn", "stop", "off"] = "warn"
    """Mean entropy H1 over three times its value at the first step."""
    no_signal: Literal["warn", "stop", "off"] = "warn"
    """Five steps in a row in which the rewards of every group are equal: nothing is learned."""
    truncated: Literal["warn", "stop", "off"] = "warn"
    """More than half of a step's responses are cut at max_tokens."""
    decline: Literal["warn", "stop", "off"] = "warn"
    """The share of correct rollouts over five steps is far below its best: by a tenth, and by four
    standard errors."""
    sampler: Literal["warn", "stop", "off"] = "warn"
    """Log pi of a sampled token differs by more than 2 nats between the model and vLLM
    (engine.sampler=vllm)."""
    nonfinite: Literal["warn", "stop", "off"] = "warn"
    """Loss or gradient not finite. The rest of that step's updates is skipped; the third such step
    in a row always stops the run."""
