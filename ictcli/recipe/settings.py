"""The tables of a recipe: one frozen model each, defaults and bounds included."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

TEMPLATES = ("auto", "chat", "none")
QUESTION = "{question}"
"""What a template of one's own has where the question goes."""


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class EngineSettings(Table):
    """Where and how the model runs."""

    backend: str = "auto"
    device: str = "auto"
    """auto, cuda, cuda:1, mps or cpu."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the weights; statistics are float32 always. auto: 16 bits on a GPU, else float32."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads; 0 leaves it to the engine."""
    rows: int = Field(default=512, ge=1)
    """Rows decoded side by side at most, rounded down to whole groups (one group at least)."""
    micro_tokens: int = Field(default=2048, ge=1)
    """Prompt and response tokens a forward and backward pass; changes memory, not results."""
    micro_batch: int | str | None = None
    """Rows a pass at most, beside micro_tokens; auto: as many tokens a pass as the plan says fit
    into this machine's memory, in place of micro_tokens, chosen when the run begins."""

    @field_validator("micro_batch")
    @classmethod
    def _some_rows(cls, value: int | str | None) -> int | str | None:
        if value is not None and value != "auto" and not (isinstance(value, int) and value > 0):
            raise ValueError("it is a number of rows, 1 or more, or auto")
        return value

    gradient_checkpointing: bool = False
    """Keep one activation a layer and compute the rest again on the way back."""
    memory_limit: float = Field(default=0.0, ge=0)
    """GiB of device memory at most; more ends the run with a sentence. 0: what the device
    recommends, where it says."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Fuse the device's kernels; auto: on a GPU."""
    load_in_4bit: bool = False
    """Round the model's weights to 4 bits while it is loaded, to train adapters on top: NF4 by
    bitsandbytes on a CUDA GPU, mlx-lm's own packing on a Mac."""
    trust_remote_code: bool = False


class AdapterSettings(Table):
    """Train low-rank adapters (arXiv 2106.09685) and leave the model's own weights as they are."""

    kind: Literal["none", "lora", "dora"] = "none"
    """none: all weights are trained. dora: arXiv 2402.09353."""
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    """The adapter's product counts alpha / rank times."""
    layers: int = Field(default=0, ge=0)
    """Of the last so many blocks; 0: of all."""
    targets: tuple[str, ...] = Field(default=(), strict=False)
    """Names of the linear layers that get one, like q_proj; empty: all within the blocks."""
    seed: int | None = Field(default=None, ge=0)
    """Of the first values; without it the run's."""


class OptimizerSettings(Table):
    """AdamW, gradient clipping and the schedule of the learning rate."""

    kind: Literal["adamw", "adamw8bit"] = "adamw"
    """adamw8bit: moments of 8 bits (arXiv 2110.02861) by bitsandbytes, on a CUDA GPU."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0)
    lr_warmup: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly to `lr`."""
    lr_hold: int = Field(default=0, ge=0)
    """Steps at `lr` behind the rise, before it decays."""
    decay: Literal["none", "linear", "cosine", "inverse"] = "none"
    """How it falls then: linear and cosine to 0 at the last step; inverse as lr_hold / t, t counted
    from the end of the rise, whatever the number of steps; none: it stays."""

    @model_validator(mode="after")
    def _inverse_of_something(self) -> OptimizerSettings:
        if self.decay == "inverse" and self.lr_hold == 0:
            raise ValueError("an inverse decay needs lr_hold, the steps before it falls")
        return self

    def lr_factor(self, step: int, steps: int) -> float:
        """Share of `lr` at step 1, 2, ... of `steps`."""
        t = step - self.lr_warmup
        if t <= 0:
            return step / self.lr_warmup
        if t <= self.lr_hold or self.decay == "none":
            return 1.0
        if self.decay == "inverse":
            return self.lr_hold / t
        done = (t - 1 - self.lr_hold) / max(steps - self.lr_warmup - self.lr_hold, 1)
        return 1.0 - done if self.decay == "linear" else (1.0 + math.cos(math.pi * done)) / 2


class ClipSettings(Table):
    """The clip range of the ratio: [1 - low, 1 + high]."""

    low: float = Field(default=0.2, ge=0, lt=1)
    high: float = Field(default=0.2, ge=0)


class UpdateSettings(Table):
    epochs: int = Field(default=1, ge=1)
    """Passes over each batch of rollouts."""
    minibatch: int = Field(default=0, ge=0)
    """Prompts an optimiser update; 0: all of the step's."""


class SamplingSettings(Table):
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)


class ColumnSettings(Table):
    """The columns of a data set of one's own; without a name the known ones are tried."""

    prompt: str | None = None
    """prompt, question or problem."""
    gold: str | None = None
    """gold or answer, or a solution with a box: what is behind `####`, in the last box, or all."""
    choices: str | None = None
    """choices, where there are some: a list of texts, in CSV as JSON."""
    id: str | None = None
    """id; else the number of the line or row."""
    response: str | None = None
    """A worked response to show as an example (`prompt.shots`); else a solution, or the gold."""
    difficulty: str | None = None
    """Numbers, for `curriculum = "difficulty"`."""


class HubSettings(Table):
    """Which part of the data set `hub:owner/name`."""

    config: str | None = None
    """Needed where it has several."""
    split: str | None = None
    """Without it train for a task, test for a benchmark."""
    revision: str | None = None
    """A commit, branch or tag; without it the newest, and a note says which that was."""


class Example(Table):
    """A question, as it stands in the data, and the response to show for it."""

    prompt: str
    response: str


class PromptSettings(Table):
    template: str = "auto"
    """chat: the tokenizer's own template; auto: that where it has one and the task wants words;
    none; or a text of one's own with {question} in it, the whole prompt."""
    system: str = ""
    suffix: str | None = None
    """Put behind the question; without it the task's own, and none in a template of one's own."""
    examples: tuple[Example, ...] = Field(default=(), strict=False)
    """Shown before every question, as turns of a chat or as text. In TOML also the path of a file
    with a prompt and a response a row."""
    shots: int = Field(default=0, ge=0)
    """So many examples, drawn from the problems to train on, which are then not trained on."""
    max_tokens: int = Field(default=0, ge=0)
    """Problems with a longer prompt, all included, are left out; 0: none is."""

    @field_validator("template")
    @classmethod
    def _known_or_own(cls, value: str) -> str:
        if value not in TEMPLATES and QUESTION not in value:
            raise ValueError(f"it is auto, chat, none, or a text with {QUESTION} in it")
        return value

    @model_validator(mode="after")
    def _examples_of_one_kind(self) -> PromptSettings:
        if self.shots and self.examples:
            raise ValueError("prompt.shots draws the examples that prompt.examples gives: take one")
        return self


class RewardSettings(Table):
    """What a response is rewarded for, and how its answer is read and judged."""

    verifier: str | None = None
    """A name, `file.py:function` or `module:function`; without it the task's own."""
    pattern: str | None = None
    """A regular expression whose first group is the answer, instead of the last box."""
    correct: float = 1.0
    """Weight of the verdict: 1 where correct, else 0, or the verifier's own score."""
    format: float = 0.0
    """Weight of there being an answer, right or wrong."""
    overlong: float = Field(default=0.0, ge=0)
    """Weight of DAPO's soft punishment of responses that come near max_tokens."""
    overlong_buffer: int = Field(default=0, ge=0)
    """Tokens before max_tokens from which it counts; 0: a fifth of max_tokens."""
    length: float = Field(default=0.0, ge=0)
    """Weight of minus tokens / max_tokens."""
    timeout: float = Field(default=5.0, gt=0)
    """Seconds to judge one answer in."""
    memory: float = Field(default=1.0, gt=0)
    """GiB to judge one answer in."""


class EvalSettings(Table):
    """Evaluation on held-out problems: before, after, and every n steps between."""

    problems: int = Field(default=512, ge=1)
    n: int = Field(default=4, ge=1)
    k: tuple[int, ...] = Field(default=(1, 4), strict=False)
    every: int = Field(default=0, ge=0)
    temperature: float | None = Field(default=None, ge=0)
    """Without it the recipe's `temperature`."""
    bench: str | None = None
    """A benchmark, a .jsonl, .csv or .parquet file or `hub:owner/name` to take the problems from,
    instead of the task's held-out part."""
    data: str | None = None
    """A file in place of that benchmark's data on the hub."""
    columns: ColumnSettings = ColumnSettings()
    hub: HubSettings = HubSettings()
    skip: int = Field(default=0, ge=0)
    """Held-out problems left out at the front."""

    @model_validator(mode="after")
    def _enough_samples(self) -> EvalSettings:
        if not self.k or max(self.k) > self.n or min(self.k) < 1:
            raise ValueError(f"every k must lie in 1..n = {self.n}")
        return self


class CheckpointSettings(Table):
    every: int = Field(default=25, ge=1)
    last: int = Field(default=2, ge=1)
    """How many checkpoints are kept, besides the best."""
    best: str | None = Field(default=None, min_length=1)
    """A number of metrics.jsonl by which the best checkpoint is kept too, like eval/pass@1;
    -NAME: the lower, the better."""


class RecordSettings(Table):
    """What is measured and recorded beside the metrics of every step."""

    rollouts_every: int = Field(default=10, ge=0)
    """Steps between recorded batches of rollouts with their statistics; 0: never."""
    uniqueness: bool = False
    """Record u also where the method does not ask for it."""
    probe_every: int = Field(default=0, ge=0)
    """Steps between probes of predicted against measured dH2; 0: never."""
    probe_positions: int = Field(default=64, ge=2)


class AlarmSettings(Table):
    collapse: Literal["warn", "stop", "off"] = "warn"
    explosion: Literal["warn", "stop", "off"] = "warn"
    nonfinite: Literal["warn", "stop", "off"] = "warn"
    """Of a loss or gradient: such an update is left out, with those of its step behind it; the
    third such step in a row always stops."""
