"""The record of an evaluation, in a run's `eval/*.json` and in `results.json`.

In JSON the scores `pass@K`, `maj@N` and `greedy` are keys on the same level as the others.
"""

import re
from typing import Any, cast

import numpy as np
from pydantic import (
    JsonValue,
    SerializerFunctionWrapHandler,
    computed_field,
    model_serializer,
    model_validator,
)

from ictcli.evaluation.passk import Interval
from ictcli.files.record import Record as Record
from ictcli.types import FloatArray

FORMAT = 1
METRIC = re.compile(r"(pass|maj)@[1-9][0-9]{0,8}|greedy")


class Scored(Record):
    """A record whose field `scores` is flattened in JSON."""

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
    """How samples were drawn."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_ids: tuple[int, ...]
    prompt: dict[str, JsonValue]
    """A `PromptSettings`, with the examples that `shots` drew."""
    seed: int


class AtTemperature(Scored):
    """What a model reached on the same problems at another temperature."""

    temperature: float
    n: int
    """Samples per problem; 1 at temperature 0."""
    scores: dict[str, Interval | None]
    accuracy_readable: float | None
    correct: tuple[int, ...]
    seconds: float


def among_readable(accuracy: float, unparsed: float) -> float | None:
    """The share of correct samples among those with a readable answer; None where there are
    none."""
    return min(accuracy / (1 - unparsed), 1.0) if unparsed < 1 else None


class Evaluation(Scored):
    """pass@k and maj@n of a model on a benchmark. accuracy, truncated, unparsed and timed_out are
    shares of all samples."""

    benchmark: str
    problems: int
    n: int
    """Samples per problem."""
    scores: dict[str, Interval | None]
    """pass@K for each k; maj@N, which is None if the verifier extracts no answers; and greedy, the
    accuracy at temperature 0, one sample a problem, where that was taken."""
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
    """Per problem: 1/m if correct is one of the m most frequent answers, else 0."""
    temperatures: tuple[AtTemperature, ...] = ()
    """Other temperatures, in the order they were asked for."""

    @computed_field
    @property
    def accuracy_readable(self) -> float | None:
        """Accuracy among samples with a readable answer."""
        return among_readable(self.accuracy, self.unparsed)

    @property
    def curve(self) -> list[AtTemperature]:
        """All temperatures, from the lowest up."""
        readable, temperature = self.accuracy_readable, self.settings.temperature
        own = AtTemperature(temperature=temperature, accuracy_readable=readable, **dict(self))
        return sorted([own, *self.temperatures], key=lambda each: each.temperature)

    @property
    def solved(self) -> dict[float, FloatArray]:
        """By temperature the share of correct samples of each problem, (N,); its own first."""
        others = {at.temperature: np.array(at.correct) / at.n for at in self.temperatures}
        return {self.settings.temperature: np.array(self.correct) / self.n, **others}

    @property
    def seconds_in_all(self) -> float:
        """With those of other temperatures."""
        return self.seconds + sum(each.seconds for each in self.temperatures)

    @property
    def passes(self) -> dict[str, Interval]:
        """The scores whose name begins with pass@."""
        return {k: score for k, score in self.scores.items() if score and k.startswith("pass@")}

    @property
    def figures(self) -> dict[str, Interval]:
        """`passes` and greedy."""
        greedy = self.scores.get("greedy")
        return self.passes | ({"greedy": greedy} if greedy else {})


NOTABLE = 0.02
"""A share of samples without an answer that is told of."""


class Unanswered(Record):
    """Shares of samples without an answer, before training and after."""

    truncated: tuple[float, float]
    unparsed: tuple[float, float]

    @computed_field
    @property
    def sentence(self) -> str:
        """Empty where they are few."""
        if max(*self.truncated, *self.unparsed) < NOTABLE:
            return ""
        ends, reads = (
            f"{after:.1%} ({before:.1%} before)"
            for before, after in (self.truncated, self.unparsed)
        )
        return f"Samples cut at max_tokens: {ends}; without a readable answer: {reads}."


def unanswered(before: Evaluation, after: Evaluation) -> Unanswered:
    return Unanswered(
        truncated=(before.truncated, after.truncated), unparsed=(before.unparsed, after.unparsed)
    )
