"""The tables of a recipe, like `[clip]`: each is a frozen model with defaults and bounds."""

import math
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ictcli.algorithm.registry import Settings
from ictcli.recipe.keys import takes_text, toml_value


class Table(Settings):
    @field_validator("*", mode="before")
    @classmethod
    def _listed(cls, value: Any, info: ValidationInfo) -> Any:
        """Turn a single value, or a text with commas, into a list if the key takes a list."""
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
    """Library that runs the model: torch = PyTorch, mlx = MLX; auto = the best one installed."""
    device: str = "auto"
    """Device to run on: auto or cpu; with torch also cuda, cuda:1 or mps; with mlx also gpu."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the weights; auto = 16 bits on a GPU, float32 on a CPU. On a CPU bfloat16
    saves memory but is less exact. Adapters and statistics are always float32."""
    kernels: Literal["auto", "avx2", "avx512", "onednn", "plain"] = "auto"
    """Kernels for large matrix products on a CPU, with torch (docs/speed.md). auto = avx512 or avx2
    if the CPU has it (Linux), else onednn on x86, else plain = PyTorch's own kernels."""
    threads: int = Field(default=0, ge=0, le=1024)
    """Number of CPU threads; 0 = the library's default."""
    rows: int = Field(default=512, ge=1)
    """Maximum number of responses sampled at once, rounded down to whole groups (at least one)."""
    context: int = Field(default=0, ge=0)
    """Maximum length of a sequence in tokens, prompt and response together; 0 = the model's own
    maximum (with LongRoPE, as in Phi-3, the length before its extension)."""
    micro_tokens: int = Field(default=2048, ge=1)
    """Maximum number of prompt and response tokens per forward and backward pass; changes memory
    use, not results. Large models with LoRA on a CPU (torch) may use fewer."""
    gradient_checkpointing: bool = False
    """Save memory: keep one activation per layer, and recompute the others in the backward pass."""
    memory_limit: float = Field(default=0.0, ge=0)
    """Device memory limit in GiB; a run that needs more stops with an error. 0 = the limit that the
    device recommends, if it has one."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Fuse kernels (mlx), or sample with CUDA graphs (torch on a CUDA GPU); auto = on a GPU."""
    load_in_4bit: bool = False
    """Load the model in 4 bits and train adapters on it: NF4 of bitsandbytes on a CUDA GPU,
    mlx-lm's quantization on a Mac."""
    trust_remote_code: bool = False
    """Run the Python code that comes with a model."""
    shard: bool = False
    """Divide weights, gradients and optimiser state among the processes of a launch (torch). To
    sample and evaluate, each process gathers all weights."""
    sampler: Literal["own", "vllm"] = "own"
    """What samples the rollouts: own = the trained model itself; vllm = vLLM (with torch;
    docs/scale.md), where the loss weights each token by min(pi_old / pi_sampler, 2). Evaluations
    always sample from the model itself."""

    @property
    def off_policy(self) -> bool:
        """Whether the rollouts are sampled by a different policy than the trained policy."""
        return self.sampler != "own"


class AdapterSettings(Table):
    """Low-rank adapters (LoRA, arXiv 2106.09685), trained instead of the model's weights."""

    kind: Literal["none", "lora"] = "none"
    """none = train all weights; lora = train low-rank adapters."""
    rank: int = Field(default=16, ge=1)
    """Rank of the adapters."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale: the adapters' output is multiplied by alpha / rank."""
    layers: int = Field(default=0, ge=0)
    """Number of transformer blocks to adapt, counted from the last; 0 = all."""
    targets: tuple[str, ...] = Field(default=(), strict=False)
    """Names of the linear layers to adapt, like q_proj; empty = every linear layer of a block."""


class NewAdapters(AdapterSettings):
    """Adapters to add to a model."""

    seed: int = 0
    """Seed of the adapters' initial values."""


class OptimizerSettings(Table):
    """AdamW, gradient clipping and the learning rate schedule."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay rate of AdamW's first moment."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay rate of AdamW's second moment."""
    eps: float = Field(default=1e-8, gt=0)
    """Term added to AdamW's denominator for numerical stability."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Coefficient of AdamW's decoupled weight decay."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Maximum global L2 norm of the gradient; a larger one is scaled down to it."""
    lr_warmup: int = Field(default=0, ge=0)
    """Number of initial steps over which the learning rate rises linearly to `lr`."""
    lr_hold: int = Field(default=0, ge=0)
    """Number of steps with the full `lr`, after the warmup and before the decay."""
    decay: Literal["none", "linear", "cosine", "inverse"] = "none"
    """How the learning rate decays. linear and cosine reach 0 at the last step; inverse multiplies
    it by lr_hold / t at step t after the warmup; none = constant."""

    @model_validator(mode="after")
    def _inverse_needs_hold(self) -> Self:
        if self.decay == "inverse" and self.lr_hold == 0:
            raise ValueError("an inverse decay needs lr_hold, the number of steps before the decay")
        return self

    def lr_factor(self, step: int, steps: int) -> float:
        """Return the learning rate as a share of `lr` at a step (from 1) of a run of `steps`."""
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
    """Clip range: the ratio pi / pi_old in [1 - low, 1 + high], or pi - pi_old in [-low, high]."""

    low: float = Field(default=0.2, ge=0, le=1)
    """How far the ratio may fall below 1 before it is clipped; 1 = never clipped below."""
    high: float = Field(default=0.2, ge=0)
    """How far the ratio may rise above 1 before it is clipped."""
    on: Literal["ratio", "tv"] = "ratio"
    """Quantity to clip: ratio = pi / pi_old; tv = pi - pi_old, the change of the token's
    probability (DPPO's binary total variation, arXiv 2602.04879)."""


class UpdateSettings(Table):
    """How a batch of rollouts becomes optimiser updates."""

    epochs: int = Field(default=1, ge=1)
    """Number of passes over each batch of rollouts."""
    minibatch: int = Field(default=0, ge=0)
    """Number of prompts per optimiser update; 0 = all prompts of the step."""


class SamplingSettings(Table):
    """Top-p and top-k sampling."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of tokens with this total probability; 1 = all tokens."""
    top_k: int = Field(default=0, ge=0)
    """Sample from the k most probable tokens; 0 = all tokens."""


class RolloutSettings(SamplingSettings):
    """Top-p and top-k sampling, and replacement of prompts without signal."""

    redraw: int = Field(default=0, ge=0)
    """Maximum number of times per step that prompts whose rollouts all have the same reward are
    replaced and sampled anew (dynamic sampling, arXiv 2503.14476); 0 = never."""


class CheckpointSettings(Table):
    """When checkpoints are written, and which of them are kept."""

    every: int = Field(default=25, ge=1)
    """Number of steps between checkpoints."""
    last: int = Field(default=2, ge=1)
    """Number of most recent checkpoints to keep, in addition to the best one."""
    best: str | None = Field(default=None, min_length=1)
    """Metric that decides the best checkpoint, like eval/pass@1; -NAME = lower is better. Default:
    no best checkpoint is kept."""


class RecordSettings(Table):
    """What is recorded in addition to the metrics of every step."""

    rollouts_every: int = Field(default=10, ge=0)
    """Number of steps between recorded batches of rollouts, with their token statistics; the last
    step is recorded too. 0 = record none."""
    uniqueness: bool = False
    """Record the uniqueness u of tokens even if the method does not need it."""


class AlarmSettings(Table):
    """What to do when training goes wrong: warn, stop the run, or nothing (off)."""

    collapse: Literal["warn", "stop", "off"] = "warn"
    """Alarm if the mean entropy H1 falls below a tenth of its value at the first step."""
    explosion: Literal["warn", "stop", "off"] = "warn"
    """Alarm if the mean entropy H1 rises above three times its value at the first step."""
    no_signal: Literal["warn", "stop", "off"] = "warn"
    """Alarm if for five steps in a row all rewards of each group are equal: nothing is learned."""
    truncated: Literal["warn", "stop", "off"] = "warn"
    """Alarm if more than half of a step's responses are cut at max_tokens."""
    decline: Literal["warn", "stop", "off"] = "warn"
    """Alarm if the share of correct rollouts over five steps falls more than 10 percentage points,
    and more than four standard errors, below its best."""
    sampler: Literal["warn", "stop", "off"] = "warn"
    """Alarm if the log-probability of a sampled token differs by more than 2 nats between the model
    and vLLM (engine.sampler=vllm)."""
    nonfinite: Literal["warn", "stop", "off"] = "warn"
    """Alarm if the loss or gradient is not finite. The step's other updates are skipped; the third
    such step in a row always stops the run."""
