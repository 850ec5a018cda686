"""What a finished run of a comparison left, read and checked, before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ictcli.compare.design import RunSpec
from ictcli.compare.launch import Summaries

Json = dict[str, Any]


@dataclass(frozen=True)
class FinishedRun:
    """A run that went to its end, and the files that a comparison is made of."""

    spec: RunSpec
    summary: Json
    before: Json
    after: Json
    metrics: list[Json]
    """One a step, 1, 2, ..."""
    timings: list[Json]

    @property
    def label(self) -> str:
        return self.spec.variant.label


def read_all(runs: Sequence[RunSpec], summaries: Summaries) -> tuple[list[FinishedRun], list[str]]:
    """The finished runs, and a line for each of which a file is missing, damaged, or of another
    evaluation than the first run's."""
    found: list[FinishedRun] = []
    failed: list[str] = []
    for number, spec in enumerate(runs, 1):
        if spec.folder in summaries:
            try:
                one = _read(spec, summaries[spec.folder])
                if found and one.after["problems"] != found[0].after["problems"]:
                    raise ValueError(
                        f"{spec.folder / 'eval' / 'after.json'} is of {one.after['problems']} "
                        f"problems, {found[0].spec.name}'s of {found[0].after['problems']}"
                    )
                found.append(one)
            except ValueError as error:
                again = f"rm -r {spec.folder} trains it again"
                failed.append(f"run {number}/{len(runs)}: {spec.name}: {error}; {again}")
    return found, failed


def _read(spec: RunSpec, summary: Json) -> FinishedRun:
    folder, steps = spec.folder, spec.recipe.steps
    n, ks = spec.recipe.eval.n, spec.recipe.eval.k

    def evaluation(found: Any) -> bool:
        counts = found["correct"]
        return (
            found["n"] == n
            and len(counts) == found["problems"] > 0
            and all(type(count) is int and 0 <= count <= n for count in counts)
        )

    def numbered(found: Any) -> bool:
        return [line["step"] for line in found] == list(range(1, steps + 1))

    def timed(found: Any) -> bool:
        return numbered(found) and all(line["sample_s"] + line["update_s"] >= 0 for line in found)

    def whole(found: Any) -> bool:
        kept = found["kept_tokens"].items() and found["tokens_kept_share"] >= 0
        spent = found["train_s"] >= 0 and found["steps"] == steps and "peak_bytes" in found
        return kept and spent and all(found["after"][f"pass@{k}"]["value"] >= 0 for k in ks)

    _checked(folder / "summary.json", lambda text: summary, whole)
    return FinishedRun(
        spec,
        summary,
        _checked(folder / "eval" / "before.json", json.loads, evaluation),
        _checked(folder / "eval" / "after.json", json.loads, evaluation),
        _checked(folder / "metrics.jsonl", _lines, numbered),
        _checked(folder / "timings.jsonl", _lines, timed),
    )


def _checked(path: Path, parse: Callable[[str], Any], sound: Callable[[Any], bool]) -> Any:
    """ValueError, naming the file, where it is missing or is not what the run wrote."""
    try:
        found = parse(path.read_text(encoding="utf-8"))
        if sound(found):
            return found
    except FileNotFoundError:
        raise ValueError(f"{path} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        pass
    raise ValueError(f"{path} is damaged")


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]
