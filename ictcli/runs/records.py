"""What a run folder's JSON files hold, as frozen models.

Fields that older versions of ictcli did not write have a default. A field that is not set is not
written, and a key that is not known here is kept.
"""

from collections.abc import Mapping
from typing import Self, cast

from pydantic import Field, JsonValue, model_validator

from ictcli.evaluation.passk import Difference, Interval
from ictcli.evaluation.record import Unanswered
from ictcli.files.record import RunRecord as RunRecord
from ictcli.recipe import data_name, labelled
from ictcli.recipe.metrics import StepMetrics as StepMetrics
from ictcli.recipe.tables import EngineSettings
from ictcli.tables.numbers import counted

FORMAT = 1
"""Format of recorded rollouts, summary.json and environment.json."""


class RecipeRecord(RunRecord):
    """recipe.toml at a glance, read without loading its plugins."""

    model: str = ""
    task: str = ""
    steps: int | None = None
    seed: int = 0

    @property
    def method(self) -> str:
        """The method's name; empty where there is none."""
        method = cast(JsonValue, (self.model_extra or {}).get("method", ""))
        return str(method.get("name", "") if isinstance(method, dict) else method)

    @property
    def label(self) -> str:
        """The method's name with any controls (`Recipe.label`)."""
        keys = self.model_extra or {}
        reward = cast(JsonValue, keys.get("reward"))
        signal = reward.get("signal", "true") if isinstance(reward, dict) else "true"
        return labelled(self.method, keys.get("control", "none"), signal)

    @property
    def data_name(self) -> str:
        """Return the name of the problems (`Recipe.data_name`)."""
        data = (self.model_extra or {}).get("data")
        return data_name(self.task, data if isinstance(data, str) else None)

    @property
    def evaluation(self) -> dict[str, JsonValue]:
        """The table `eval`; empty where there is none."""
        table = cast(JsonValue, (self.model_extra or {}).get("eval"))
        return table if isinstance(table, dict) else {}


class Stamp(RunRecord):
    """The field that says which version of ictcli wrote a file."""

    format: int = FORMAT


class Format(RunRecord):
    """The version of ictcli that wrote a file."""

    format: int


class FileRecord(RunRecord):
    bytes: int
    sha256: str


class Manifest(Format):
    """manifest.json of a checkpoint or a run: files by their paths there."""

    files: dict[str, FileRecord]


class StepTimings(RunRecord):
    """A line of timings.jsonl: seconds and memory, which no two runs share."""

    step: int
    sample_s: float | None = None
    update_s: float | None = None
    peak_bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """Return the seconds of the step, if both parts are known."""
        if self.sample_s is None or self.update_s is None:
            return None
        return self.sample_s + self.update_s


class SftMetrics(RunRecord):
    """A line of sft.jsonl: a supervised step."""

    step: int
    loss: float
    """Mean of -log pi over the tokens of the responses, in nats."""
    tokens: int
    """Tokens of the responses."""
    grad_norm: float
    """Before it is clipped."""
    lr: float


class SftSummary(RunRecord):
    """Figures of the supervised steps before training."""

    steps: int
    examples: int
    tokens: int
    """Tokens of responses, each as often as it was trained on."""
    first_loss: float
    last_loss: float
    """Mean of -log pi, in nats."""
    reached: dict[str, Interval] = Field(default_factory=dict[str, Interval])
    """The figures after these steps; empty where no other steps followed."""
    change: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """Their change by these steps, paired by problem."""
    change_after: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """Their change by the steps that followed."""

    @property
    def words(self) -> str:
        return (
            f"{counted(self.steps, 'supervised step')} on {counted(self.examples, 'example')} "
            f"({self.tokens:,} tokens; loss {self.first_loss:.3g}, then {self.last_loss:.3g})"
        )


def passes_by_k(passes: Mapping[str, Interval]) -> dict[int, Interval]:
    """Return pass@K by k, of figures that hold others too."""
    return {
        int(name.removeprefix("pass@")): interval
        for name, interval in passes.items()
        if name.startswith("pass@")
    }


class Best(RunRecord):
    """The best checkpoint of a run by `checkpoint.best`."""

    metric: str
    step: int
    value: float | None


class Unlearned(RunRecord):
    """A training whose every gradient was 0."""

    sentence: str
    """Why nothing was learned."""
    hint: str
    """What to type next."""


class Summary(RunRecord):
    """summary.json: what a finished run reached and took."""

    format: int = FORMAT
    task: str
    method: str | None = None
    seed: int | None = None
    steps: int
    before: dict[str, Interval]
    after: dict[str, Interval]
    change: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """after - before, paired by problem."""
    unanswered: Unanswered | None = None
    problems: int
    samples_per_problem: int
    wall_s: float
    cpu_s: float | None = None
    train_s: float | None = None
    rollouts_sampled: int | None = None
    """Those of prompts drawn again included."""
    tokens_sampled: int
    tokens_kept_share: float
    kept_tokens: dict[str, float]
    """Which tokens were trained: means over the steps after the dense warm-up, or over all steps if
    there are none after it."""
    steps_skipped: int = 0
    peak_bytes: int | None = None
    model: str = ""
    best: Best | None = None
    unlearned: Unlearned | None = None
    """Why nothing was learned, where every gradient was 0."""
    sft: SftSummary | None = None
    """The supervised steps before training."""

    @model_validator(mode="after")
    def _same_figures(self) -> Self:
        if self.before.keys() != self.after.keys():
            raise ValueError("before and after have other figures")
        return self


class EngineRecord(RunRecord):
    """The engine, as `Engine.describe` gives it."""

    engine: str | None = None
    device: str | None = None
    device_name: str | None = None
    dtype: str | None = None
    kernels: str | None = None
    threads: int | None = None
    bits: list[int] = Field(default_factory=list[int])
    parameters: int | None = None


class ProblemSet(RunRecord):
    """How many problems, and a checksum of them."""

    problems: int
    sha256: str


class DataRecord(RunRecord):
    """Where the problems come from, as `ictcli.tasks.prepare.described` gives it."""

    path: str | None = None
    file: str | None = None
    config: str | list[str] | None = None
    split: str | None = None
    revision: str | None = None
    generator: str | None = None
    """Name of a task of reasoning-gym, with `version` of the library and the two `seeds`."""
    version: str | None = None
    seeds: dict[str, int] | None = None
    sha256: str | None = None
    train: ProblemSet | None = None
    heldout: ProblemSet | None = None
    verifier: str | None = None
    """Verifier of the answers to evaluate."""
    sft: ProblemSet | None = None
    left_out: dict[str, int] = Field(default_factory=dict[str, int])


class ModelRecord(RunRecord):
    """The model that a run began with."""

    name: str = ""
    sha256: str | None = None


class Environment(RunRecord):
    """environment.json: versions, device, and checksums of what a run began with."""

    format: int = FORMAT
    ictcli: str | None = None
    python: str | None = None
    platform: str | None = None
    libraries: dict[str, str] = Field(default_factory=dict[str, str])
    engine: EngineRecord = EngineRecord()
    seed: int | None = None
    command: list[str] = Field(default_factory=list[str])
    data: DataRecord = DataRecord()
    model: ModelRecord = ModelRecord()
    recipe_sha256: str | None = None
    extended_from: list[int] = Field(default_factory=list[int])
    """The recipe's steps before each `ictcli resume RUN steps=N`."""

    def typed(self, settings: EngineSettings) -> EngineSettings:
        """Return engine settings with the number format that the run began in, unless they name
        one."""
        began = self.engine.dtype
        if settings.dtype != "auto" or began not in ("float32", "bfloat16"):
            return settings
        return settings.model_copy(update={"dtype": began})


class Failure(RunRecord):
    """failure.json: why the last sitting ended."""

    error: str
    final: bool = False
    """Whether the run ended itself, and a launch that starts again leaves it so."""
    traceback: str = ""
    """Its end; empty where the message says all: of a UserError or a full disk."""
