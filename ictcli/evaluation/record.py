"""The record of an evaluation: `eval/*.json` of a run, and an entry of `results.json`.

In JSON the scores `pass@K` and `maj@N` stand beside the other keys. Both files are of format 1.
"""

import re
from typing import Any, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ictcli.evaluation.passk import Interval

FORMAT = 1
METRIC = re.compile(r"(pass|maj)@[1-9][0-9]{0,8}")


class Record(BaseModel):
    """Frozen; keys that it does not know are left out."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Scored(Record):
    """A record with a field `scores`, which in JSON stands on the level of the other keys."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: object) -> object:
        table = cast(dict[str, Any], data)
        if not isinstance(data, dict) or "scores" in data:
            return table
        return {**table, "scores": {key: table[key] for key in table if METRIC.fullmatch(key)}}

    @model_serializer(mode="wrap")
    def _spread(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in handler(self).items():
            data |= value if key == "scores" else {key: value}
        return data


class SampleSettings(Record):
    """How samples were taken in training."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_ids: tuple[int, ...]
    prompt: dict[str, JsonValue]
    """A `PromptSettings`; `shots` and the examples that it drew stand side by side."""
    seed: int


class Evaluation(Scored):
    """pass@k and maj@n of a model on a benchmark. Shares are of all samples."""

    benchmark: str
    problems: int
    n: int
    """Samples a problem."""
    scores: dict[str, Interval | None]
    """pass@K of each k, and maj@N: None where the verifier extracts no answers."""
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
    """Correct samples of n, a problem."""
    majority: tuple[float, ...] | None
    """Share of the largest groups of answers that is right, a problem."""

    @property
    def passes(self) -> dict[str, Interval]:
        """The scores pass@K."""
        return {
            name: score
            for name, score in self.scores.items()
            if score is not None and name.startswith("pass@")
        }
