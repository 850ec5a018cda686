"""Records: the content of JSON files as frozen models, checked when they are read."""

import json
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, model_validator

LARGEST = 1e100
"""Largest number in a record: squares and sums of such numbers are finite."""


class Record(BaseModel):
    """A frozen model that ignores unknown keys. No number in it is larger than `LARGEST`."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        _check_numbers([*self.__dict__.values(), *(self.model_extra or {}).values()])
        return self


def _check_numbers(data: object) -> None:
    """Raise ValueError if data holds a number larger than `LARGEST`, or NaN. Records inside data
    are skipped: they were checked when they were made."""
    if isinstance(data, dict):
        data = [*cast(dict[str, object], data).values()]
    if isinstance(data, list | tuple):
        for value in cast(list[object], data):
            _check_numbers(value)
    elif isinstance(data, int | float) and not abs(data) <= LARGEST:
        raise ValueError(f"a number is larger than {LARGEST:g}")


class RunRecord(Record):
    """A record of a run, checked without conversion ("3" is not a number). Keeps unknown keys."""

    model_config = ConfigDict(extra="allow", strict=True)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, in the order of their declaration, then unknown keys."""
        return self.model_dump(exclude_unset=True)

    def to_line(self) -> str:
        """Return the record as a line of a JSONL file."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
