"""Frozen models of the JSON files in a run folder.

Fields that older versions of ictcli did not write have a default. Fields that are not set are not
written; unknown keys are kept.
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
    """The main keys of recipe.toml, read without loading plugins."""

    model: str = ""
    task: str = ""
    steps: int | None = None
    seed: int = 0

    @property
    def method(self) -> str:
        """Return the method's name; empty if there is none."""
        method = cast(JsonValue, (self.model_extra or {}).get("method", ""))
        return str(method.get("name", "") if isinstance(method, dict) else method)

    @property
    def label(self) -> str:
        """Return the method's name, with the names of controls if any are set (`Recipe.label`)."""
        keys = self.model_extra or {}
        reward = cast(JsonValue, keys.get("reward"))
        signal = reward.get("signal", "true") if isinstance(reward, dict) else "true"
        return labelled(self.method, keys.get("control", "none"), signal)

    @property
    def data_name(self) -> str:
        """Return the name of the data set, for messages: a file's name or the task's."""
        data = (self.model_extra or {}).get("data")
        return data_name(self.task, data if isinstance(data, str) else None)

    @property
    def evaluation(self) -> dict[str, JsonValue]:
        """Return the table `eval`; empty if there is none."""
        table = cast(JsonValue, (self.model_extra or {}).get("eval"))
        return table if isinstance(table, dict) else {}


class Stamp(RunRecord):
    """The format number of a file; the current number if the file has none."""

    format: int = FORMAT


class Format(RunRecord):
    """The format number of a file, which must be present."""

    format: int


class FileRecord(RunRecord):
    bytes: int
    sha256: str


class Manifest(Format):
    """manifest.json of a checkpoint or a run: size and checksum of files, by relative path."""

    files: dict[str, FileRecord]


class StepTimings(RunRecord):
    """A line of timings.jsonl: seconds and memory of a step."""

    step: int
    sample_s: float | None = None
    update_s: float | None = None
    peak_bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """Return the seconds of sampling and update together; None if one of them is unknown."""
        if self.sample_s is None or self.update_s is None:
            return None
        return self.sample_s + self.update_s


class SftMetrics(RunRecord):
    """A line of sft.jsonl: a supervised step."""

    step: int
    loss: float
    """Mean of -log pi over the tokens of the responses, in nats."""
    tokens: int
    """Number of response tokens."""
    grad_norm: float
    """Norm of the gradient before clipping."""
    lr: float


class SftSummary(RunRecord):
    """Totals of the supervised steps before reinforcement learning, and their effect."""

    steps: int
    examples: int
    tokens: int
    """Number of response tokens trained on; repeated examples count each time."""
    first_loss: float
    last_loss: float
    """Mean of -log pi in the last step, in nats."""
    reached: dict[str, Interval] = Field(default_factory=dict[str, Interval])
    """Scores after the supervised steps; empty if no reinforcement learning followed."""
    change: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """Change of the scores during the supervised steps, paired by problem."""
    change_after: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """Change of the scores during reinforcement learning, paired by problem."""

    @property
    def words(self) -> str:
        return (
            f"{counted(self.steps, 'supervised step')} on {counted(self.examples, 'example')} "
            f"({self.tokens:,} tokens; loss {self.first_loss:.3g}, then {self.last_loss:.3g})"
        )


def passes_by_k(passes: Mapping[str, Interval]) -> dict[int, Interval]:
    """Return the pass@k scores among `passes`, by k."""
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
    """The diagnosis of a run whose every gradient was 0."""

    sentence: str
    """Why nothing was learned."""
    hint: str
    """Settings or commands to try next."""


class Summary(RunRecord):
    """summary.json: results and totals of a finished run."""

    format: int = FORMAT
    task: str
    method: str | None = None
    seed: int | None = None
    steps: int
    before: dict[str, Interval]
    after: dict[str, Interval]
    change: dict[str, Difference] = Field(default_factory=dict[str, Difference])
    """Scores after minus before training, paired by problem."""
    unanswered: Unanswered | None = None
    problems: int
    samples_per_problem: int
    wall_s: float
    cpu_s: float | None = None
    train_s: float | None = None
    rollouts_sampled: int | None = None
    """Number of rollouts, including those that `sampling.redraw` replaced."""
    tokens_sampled: int
    tokens_kept_share: float
    kept_tokens: dict[str, float]
    """Statistics of the trained tokens: means over the steps after the dense warm-up, or over all
    steps if there are none after it."""
    steps_skipped: int = 0
    peak_bytes: int | None = None
    model: str = ""
    best: Best | None = None
    unlearned: Unlearned | None = None
    """Why nothing was learned, if every gradient was 0."""
    sft: SftSummary | None = None
    """The supervised steps, if there were any."""

    @model_validator(mode="after")
    def _same_figures(self) -> Self:
        if self.before.keys() != self.after.keys():
            raise ValueError("before and after have different scores")
        return self


class EngineRecord(RunRecord):
    """Description of an engine, as `Engine.describe` returns it."""

    engine: str | None = None
    device: str | None = None
    device_name: str | None = None
    dtype: str | None = None
    kernels: str | None = None
    threads: int | None = None
    bits: list[int] = Field(default_factory=list[int])
    parameters: int | None = None


class ProblemSet(RunRecord):
    """Number of problems, and a checksum of them."""

    problems: int
    sha256: str


class DataRecord(RunRecord):
    """Source of a run's problems, as `ictcli.tasks.prepare.described` returns it."""

    path: str | None = None
    file: str | None = None
    config: str | list[str] | None = None
    split: str | None = None
    revision: str | None = None
    generator: str | None = None
    """Name of a reasoning-gym task; `version` is the version of the library."""
    version: str | None = None
    seeds: dict[str, int] | None = None
    sha256: str | None = None
    train: ProblemSet | None = None
    heldout: ProblemSet | None = None
    verifier: str | None = None
    """Verifier that judges answers in evaluations."""
    sft: ProblemSet | None = None
    left_out: dict[str, int] = Field(default_factory=dict[str, int])


class ModelRecord(RunRecord):
    """The model that a run started from."""

    name: str = ""
    sha256: str | None = None


class Environment(RunRecord):
    """environment.json: versions, device, and checksums of a run's recipe, model and data."""

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
    """The number of steps before each extension by `ictcli resume RUN steps=N`."""

    def typed(self, settings: EngineSettings) -> EngineSettings:
        """Return the settings; if their dtype is "auto", with the dtype of the run's start."""
        dtype = self.engine.dtype
        if settings.dtype != "auto" or dtype not in ("float32", "bfloat16"):
            return settings
        return settings.model_copy(update={"dtype": dtype})


class Failure(RunRecord):
    """failure.json: the error that ended a run's last process."""

    error: str
    final: bool = False
    """Whether the run stopped itself, by an alarm for example; torchrun then cannot restart it."""
    traceback: str = ""
    """End of the traceback; empty if the message is enough: for a UserError or a full disk."""
