"""Pairs of gold and answer by the rules of docs/verifier.md, each family with its own oracle.

A family draws values and writes them in the ways a rule names; whether two texts are the same
follows from the values, never from the verifier. Run by `python -m tests.rewards.families`, it
writes them into pairs.jsonl, after the pairs written by hand.
"""

import json
import random
from pathlib import Path

from tests.rewards import family_forms, family_values

PAIRS = Path(__file__).parent / "pairs.jsonl"
FAMILIES = {**family_values.FAMILIES, **family_forms.FAMILIES}


def generated() -> list[dict[str, str | bool]]:
    """The pairs of all families, without doubles."""
    pairs: dict[tuple[str, str], dict[str, str | bool]] = {}
    for rule, function in FAMILIES.items():
        for gold, answer, same in function(random.Random(rule)):
            row = {"gold": gold, "answer": answer, "same": same, "rule": rule, "why": "by rule"}
            pairs.setdefault((gold, answer), row)
    return list(pairs.values())


def main() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["why"] != "by rule"] + generated()
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    PAIRS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
