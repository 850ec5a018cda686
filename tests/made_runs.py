"""What runs leave, as files of our own making."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation, SampleSettings


def interval(value: float, half: float = 0.1) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def evaluation(
    scores: Mapping[str, float | None], correct: tuple[int, ...] = (2,), n: int = 4
) -> Evaluation:
    """An evaluation with these scores, and intervals of a quarter to each side."""
    found = {
        name: None if score is None else Interval(score, score - 0.25, score + 0.25)
        for name, score in scores.items()
    }
    zeros = dict.fromkeys(("accuracy", "truncated", "unparsed", "timed_out"), 0.0)
    drawn = SampleSettings(
        max_tokens=8, temperature=1.0, top_p=1.0, top_k=0, stop_ids=(), prompt={}, seed=0
    )
    return Evaluation(
        benchmark="b",
        problems=len(correct),
        n=n,
        scores=found,
        **zeros,
        tokens=9,
        tokens_per_response=1.0,
        seconds=3.0,
        tokens_per_second=None,
        settings=drawn,
        correct=correct,
        majority=None,
    )


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def write_summary(run: Path, before: float, after: float, **more: Any) -> None:
    """summary.json of a finished run."""
    passes = {"before": {"pass@1": interval(before)}, "after": {"pass@1": interval(after)}}
    counts = {"problems": 512, "samples_per_problem": 4, "tokens_sampled": 1000, "wall_s": 9.5}
    least = {"task": "t", "steps": 3, "tokens_kept_share": 0.117, "kept_tokens": {}}
    write(run / "summary.json", {**passes, **counts, **least, **more})
