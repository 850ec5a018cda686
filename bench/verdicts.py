"""Verdicts a second and their mistakes, beside math-verify, on labelled pairs of answers.

`python bench/verdicts.py [PAIRS.jsonl]`: rows of {"gold", "answer", "same"}; without a file the
project's own. The labels follow this project's conventions (units, percent, brackets), so what
math-verify gets wrong by them is not always its fault. One thread, the two taken in one run.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ictcli.rewards import Limits, grade

PAIRS = Path(__file__).parent.parent / "tests" / "rewards" / "pairs.jsonl"


def ours(golds: list[str], answers: list[str]) -> list[bool]:
    responses = [f"\\boxed{{{answer}}}" for answer in answers]
    return [one.status == "correct" for one in grade(responses, golds, limits=Limits(workers=1))]


def math_verify(golds: list[str], answers: list[str]) -> list[bool]:
    import math_verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    library: Any = math_verify  # its types do not know that a time limit may be none
    found: list[bool] = []
    for gold, answer in zip(golds, answers, strict=True):
        left = library.parse(f"\\boxed{{{gold}}}", parsing_timeout=None)
        right = library.parse(f"\\boxed{{{answer}}}", parsing_timeout=None)
        found.append(bool(library.verify(left, right, timeout_seconds=None)))
    return found


def measured(
    judge: Callable[[list[str], list[str]], list[bool]], rows: list[dict[str, str | bool]]
) -> tuple[float, int, int]:
    """(verdicts a second, wrongly equal, wrongly different)."""
    golds, answers = [str(row["gold"]) for row in rows], [str(row["answer"]) for row in rows]
    judge(golds[:20], answers[:20])  # imports
    started = time.perf_counter()
    found = judge(golds, answers)
    rate = len(rows) / (time.perf_counter() - started)
    equal = sum(same and not row["same"] for same, row in zip(found, rows, strict=True))
    different = sum(bool(row["same"]) and not same for same, row in zip(found, rows, strict=True))
    return rate, equal, different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="?", type=Path, default=PAIRS)
    lines = parser.parse_args().pairs.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    print(f"{len(rows)} pairs         verdicts/s  wrongly equal  wrongly different")
    for name, judge in (("ictcli", ours), ("math-verify", math_verify)):
        rate, equal, different = measured(judge, rows)
        print(f"{name:17} {rate:12,.0f} {equal:14} {different:18}")


if __name__ == "__main__":
    main()
