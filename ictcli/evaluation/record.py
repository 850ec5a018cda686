"""The record of an evaluation, in a run's `eval/*.json` and in `results.json`.

In JSON the scores `pass@K`, `maj@N` and `greedy` are keys of the record itself.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from pydantic import (
    ConfigDict,
    JsonValue,
    SerializerFunctionWrapHandler,
    computed_field,
    model_serializer,
    model_validator,
)

from ictcli.evaluation.passk import Difference, Interval, paired, pass_at_k
from ictcli.files.record import Record as Record
from ictcli.tables.numbers import shown_share
from ictcli.types import FloatArray

FORMAT = 1
METRIC = re.compile(r"(pass|maj)@[1-9][0-9]{0,8}|greedy")


class Scored(Record):
    """A record whose `scores` become keys of the record itself in JSON."""

    @model_validator(mode="before")
    @classmethod
    def _nest_scores(cls, data: object) -> object:
        table = cast(dict[str, Any], data)
        if not isinstance(data, dict) or "scores" in data:
            return table
        return {**table, "scores": {key: table[key] for key in table if METRIC.fullmatch(key)}}

    @model_serializer(mode="wrap")
    def _flatten_scores(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in handler(self).items():
            data |= value if key == "scores" else {key: value}
        return data


class SampleSettings(Record):
    """The settings with which samples were drawn."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_ids: tuple[int, ...]
    prompt: dict[str, JsonValue]
    """A `PromptSettings` as JSON, with the worked examples drawn for `shots`."""
    seed: int


class AtTemperature(Scored):
    """The scores of a model on a benchmark at one temperature."""

    temperature: float
    n: int
    """Samples per problem; 1 at temperature 0."""
    scores: dict[str, Interval | None]
    correct: tuple[int, ...]
    seconds: float


def among_readable(accuracy: float, unparsed: float) -> float | None:
    """Return the share of correct samples among those with a readable answer; None without any."""
    return min(accuracy / (1 - unparsed), 1.0) if unparsed < 1 else None


class Evaluation(Scored):
    """pass@k and maj@n of a model on a benchmark. accuracy, truncated, unparsed and timed_out are
    shares of all samples."""

    benchmark: str
    problems: int
    n: int
    """Samples per problem."""
    scores: dict[str, Interval | None]
    """pass@K for each k; maj@N, None if the verifier extracts no answers; and, if evaluated,
    greedy: the accuracy at temperature 0, from one sample per problem."""
    accuracy: float
    truncated: float
    unparsed: float
    timed_out: float
    tokens: int
    tokens_per_response: float
    seconds: float
    tokens_per_second: float | None
    settings: SampleSettings
    correct: tuple[int, ...]
    """Number of correct samples, per problem."""
    majority: tuple[float, ...] | None
    """Per problem: 1/m if the correct answer is one of the m most frequent answers, else 0."""
    temperatures: tuple[AtTemperature, ...] = ()
    """Scores at the further temperatures that the user set, in the same order."""

    @computed_field
    @property
    def accuracy_readable(self) -> float | None:
        """Return the accuracy among samples with a readable answer, if there is one."""
        return among_readable(self.accuracy, self.unparsed)

    @property
    def curve(self) -> list[AtTemperature]:
        """Return the scores at all temperatures, from the lowest up."""
        at = AtTemperature(temperature=self.settings.temperature, **dict(self))
        return sorted([at, *self.temperatures], key=lambda at: at.temperature)

    @property
    def solved(self) -> dict[float, FloatArray]:
        """Return shares of correct samples per problem (N,), by temperature."""
        others = {at.temperature: np.array(at.correct) / at.n for at in self.temperatures}
        return {self.settings.temperature: np.array(self.correct) / self.n, **others}

    @property
    def seconds_in_all(self) -> float:
        """Return the total seconds of all temperatures."""
        return self.seconds + sum(at.seconds for at in self.temperatures)

    @property
    def passes(self) -> dict[str, Interval]:
        """Return the pass@K scores."""
        return {k: score for k, score in self.scores.items() if score and k.startswith("pass@")}

    @property
    def figures(self) -> dict[str, Interval]:
        """Return the pass@K scores and, if evaluated, greedy."""
        greedy = self.scores.get("greedy")
        return self.passes | ({"greedy": greedy} if greedy else {})


class Differences(Scored):
    """Paired differences of a model's scores from those of the first model."""

    to: str
    scores: dict[str, Difference | None]


class ResultSettings(SampleSettings):
    """All settings that determine a result; extra fields are copied from settings.json."""

    model_config = ConfigDict(extra="allow")

    verifier: str
    fingerprint: str | None


class Result(Evaluation):
    """An entry of results.json: an evaluation, its model, and differences from the first model."""

    format: int
    model: str
    name: str
    settings: ResultSettings  # pyright: ignore[reportIncompatibleVariableOverride]  # frozen
    notes: tuple[str, ...]
    trained_on: int | None = None
    """Number of the benchmark's problems that the model was trained on; None if not known."""
    difference: Differences | None = None
    """Differences from the first model's scores; None for the first model."""


def with_differences(results: Sequence[Result]) -> list[Result]:
    """Return the results, and add to those of later models their paired differences from the first
    model. All models must have the same problems, n and ks."""
    firsts: dict[str, Result] = {}
    complete: list[Result] = []
    for result in results:
        first, difference = firsts.setdefault(result.benchmark, result), None
        if first.name != result.name:
            scores: dict[str, Difference | None] = {**pass_differences(result, first)}
            votes = [r.majority for r in (result, first) if r.majority is not None]
            both = len(votes) == 2
            scores[f"maj@{result.n}"] = paired(*map(np.array, votes)) if both else None
            difference = Differences(to=first.name, scores=scores)
        complete.append(result.model_copy(update={"difference": difference}))
    return complete


def pass_differences(evaluation: Evaluation, first: Evaluation) -> dict[str, Difference]:
    """Return the paired differences of pass@k and greedy, `evaluation` minus `first`. Both must
    have the same problems, n and ks."""
    scores: dict[str, Difference] = {}
    for name in evaluation.passes:
        k = int(name.removeprefix("pass@"))
        scores[name] = paired(
            *(pass_at_k(evaluation.n, np.array(e.correct), k) for e in (evaluation, first))
        )
    greedy = [e.solved[0.0] for e in (evaluation, first) if 0.0 in e.solved]
    return scores | ({"greedy": paired(*greedy)} if len(greedy) == 2 else {})


NOTABLE = 0.02
"""`Unanswered.sentence` is empty if all its shares of samples are below this."""


class Unanswered(Record):
    """Shares of samples without an answer, as pairs (before training, after)."""

    truncated: tuple[float, float]
    unparsed: tuple[float, float]

    @computed_field
    @property
    def sentence(self) -> str:
        """Return a warning with the shares; empty if all are below NOTABLE."""
        if max(*self.truncated, *self.unparsed) < NOTABLE:
            return ""
        ends, reads = (
            f"{shown_share(after)} ({shown_share(before)} before)"
            for before, after in (self.truncated, self.unparsed)
        )
        return f"Samples cut at max_tokens: {ends}; without a readable answer: {reads}."


def unanswered(before: Evaluation, after: Evaluation) -> Unanswered:
    return Unanswered(
        truncated=(before.truncated, after.truncated), unparsed=(before.unparsed, after.unparsed)
    )
