"""The record of an evaluation, in a run's `eval/*.json` and in `results.json`.

In JSON the scores `pass@K` and `maj@N` are keys on the same level as the others.
"""

import re
from typing import Any, cast

from pydantic import (
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ictcli.evaluation.passk import Interval
from ictcli.files.record import Record as Record

FORMAT = 1
METRIC = re.compile(r"(pass|maj)@[1-9][0-9]{0,8}")


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


class Evaluation(Scored):
    """pass@k and maj@n of a model on a benchmark. accuracy, truncated, unparsed and timed_out are
    shares of all samples."""

    benchmark: str
    problems: int
    n: int
    """Samples per problem."""
    scores: dict[str, Interval | None]
    """pass@K for each k, and maj@N, which is None if the verifier extracts no answers."""
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

    @property
    def passes(self) -> dict[str, Interval]:
        """The scores whose name begins with pass@."""
        return {
            name: score
            for name, score in self.scores.items()
            if score is not None and name.startswith("pass@")
        }
