"""What a run folder's JSON files hold, as frozen models.

Fields that older versions of ictcli did not write have a default. A field that is not set is not
written, and a key that is not known here is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ictcli.evaluation.passk import Interval

FORMAT = 1
"""Of recorded rollouts, summary.json and environment.json."""
SCORE = re.compile(r"(pass|maj)@[1-9][0-9]{0,8}")


class Record(BaseModel):
    """Part of a file, checked without conversion: "3" is no number, and NaN is none either."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """The fields that are set, in the order they are written in, then other keys."""
        return self.model_dump(exclude_unset=True)


class RecipeRecord(Record):
    """recipe.toml at a glance: without its plugins, of which a method may come, being loaded."""

    model: str = ""
    task: str = ""
    steps: int | None = None
    seed: int = 0

    @property
    def method(self) -> str:
        """The method's name; empty where there is none."""
        method = cast(JsonValue, (self.model_extra or {}).get("method", ""))
        return str(method.get("name", "") if isinstance(method, dict) else method)


class Stamp(Record):
    """The field that says which version of ictcli wrote a file."""

    format: int = FORMAT


class StepMetrics(Record):
    """A line of metrics.jsonl. None: the figure does not exist for this step."""

    step: int
    reward: float | None = None
    reward_std: float | None = None
    correct: float | None = None
    unparsed: float | None = None
    timed_out: float | None = None
    formatted: float | None = None
    truncated: float | None = None
    length: float | None = None
    groups_with_signal: float | None = None
    entropy: float | None = None
    renyi2: float | None = None
    share_kept: float | None = None
    kept_prob: float | None = None
    regime_high: float | None = None
    regime_low: float | None = None
    high_low_ratio: float | None = None
    share_kept_positive: float | None = None
    share_kept_negative: float | None = None
    uniqueness: float | None = None
    uniqueness_entropy_spearman: float | None = None
    fork_share: float | None = None
    fork_recall: float | None = None
    fork_precision: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    clip_fraction: float | None = None
    kl: float | None = None
    updates: int | None = None
    finite: bool = True
    lr: float | None = None
    probe_positions: float | None = None
    probe_pearson: float | None = None
    probe_error: float | None = None
    probe_change: float | None = None
    sampler_gap: float | None = None

    def value(self, name: str) -> float | None:
        """A figure by its name, those of an evaluation (eval/pass@1) included."""
        value = getattr(self, name, None)
        return value if isinstance(value, int | float) else None


class StepTimings(Record):
    """A line of timings.jsonl: seconds and memory, which no two runs share."""

    step: int
    sample_s: float | None = None
    update_s: float | None = None
    peak_bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """Of the step, where both of its parts are known."""
        if self.sample_s is None or self.update_s is None:
            return None
        return self.sample_s + self.update_s


class EvaluationRecord(Record):
    """eval/LABEL.json, as `ictcli.evaluation.evaluate.Evaluation` writes it."""

    __pydantic_extra__: dict[str, Interval | JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    benchmark: str | None = None
    problems: int
    n: int
    accuracy: float | None = None
    truncated: float | None = None
    unparsed: float | None = None
    timed_out: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    settings: dict[str, JsonValue] = {}
    correct: list[int] | None = None
    """Correct samples of n, by problem."""

    @property
    def scores(self) -> dict[str, Interval]:
        """pass@k and maj@k by name."""
        extra = self.__pydantic_extra__.items()
        return {
            name: value
            for name, value in extra
            if isinstance(value, Interval) and SCORE.fullmatch(name)
        }


class SampleRecord(Record):
    """A line of eval/LABEL.jsonl; the evaluation's own type is `ictcli.evaluation.samples`."""

    id: str


def passes_of(scores: Mapping[str, Interval]) -> dict[int, Interval]:
    """pass@k by k."""
    named = ((name.partition("@"), interval) for name, interval in scores.items())
    return {int(k): interval for (kind, _, k), interval in named if kind == "pass" and k.isdigit()}


class Best(Record):
    """The best checkpoint of a run by `checkpoint.best`."""

    metric: str
    step: int
    value: float | None


class Summary(Record):
    """summary.json: what a finished run reached and took."""

    format: int = FORMAT
    task: str
    method: str | None = None
    seed: int | None = None
    steps: int
    before: dict[str, Interval]
    """pass@k by name."""
    after: dict[str, Interval]
    problems: int
    samples_per_problem: int
    wall_s: float
    train_s: float | None = None
    tokens_sampled: int
    tokens_kept_share: float
    kept_tokens: dict[str, float]
    """Which tokens were trained: means over the steps after the dense warm-up."""
    steps_skipped: int = 0
    peak_bytes: int | None = None
    model: str = ""
    best: Best | None = None


class EngineRecord(Record):
    """What an engine says of itself (`Engine.describe`)."""

    engine: str | None = None
    device: str | None = None
    device_name: str | None = None
    dtype: str | None = None
    threads: int | None = None
    bits: list[int] = []
    parameters: int | None = None


class ProblemSet(Record):
    """How many problems, and a checksum of them."""

    problems: int
    sha256: str


class DataRecord(Record):
    """Where the problems come from; as `ictcli.tasks.prepare.described` gives it."""

    train: ProblemSet | None = None
    heldout: ProblemSet | None = None
    left_out: dict[str, int] = {}


class ModelRecord(Record):
    """The model that a run began with."""

    name: str = ""
    sha256: str | None = None


class Environment(Record):
    """environment.json: versions, device, and checksums of what a run began with."""

    format: int = FORMAT
    ictcli: str | None = None
    python: str | None = None
    platform: str | None = None
    libraries: dict[str, str] = {}
    engine: EngineRecord = EngineRecord()
    seed: int | None = None
    command: list[str] = []
    recipe_name: str | None = None
    micro_tokens: int | None = None
    """Chosen for engine.micro_batch = "auto"."""
    data: DataRecord = DataRecord()
    model: ModelRecord = ModelRecord()
    recipe_sha256: str | None = None


class Failure(Record):
    """failure.json: why the last sitting ended."""

    error: str
