"""Questions that are "solved" by a formula of their own text, or by one of their solution.

`python bench/copies.py DATA.jsonl`: rows of {"problem" or "question", "solution"}, as MATH has
them; the gold is the last box of the solution. Candidates are all formulas between dollars or in
displays, the sides of their relations, their bracketed and comma-separated parts, and both after
the word that stands before them. A candidate that is the gold's own text is none. Of a solution
they are its formulas before the box: work that is not finished, or the answer in another form.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regex  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards import grade
from ictcli.rewards.answers import boxed
from ictcli.rewards.maths.latex import flat, tidy

_MATHS = re.compile(r"(\w*)[\s:]*(?:\$\$(.+?)\$\$|\$(.+?)\$|\\\[(.+?)\\\]|\\\((.+?)\\\))", re.S)
_GROUP: Any = regex.compile(r"\{(?:[^{}\\]|\\.|(?R))*+\}|\((?:[^()\\]|\\.|(?R))*+\)")
_SPLIT = re.compile(r"=|&|\\\\|,|<|>|\\(?:leq?|geq?|text\{[^{}]*\}|begin\{[^}]*\}|end\{[^}]*\})")


def parts(formula: str) -> Iterator[str]:
    """A formula, its sides, and what stands in brackets in it."""
    yield formula
    sides = [side.strip(" .;:$") for side in _SPLIT.split(formula)]
    yield from sides
    for side in sides:
        for bracket in re.finditer(r"[({]", side):
            if group := _GROUP.match(side, bracket.start()):
                yield group[0][1:-1]
        yield from re.split(r"(?<=[\w)}])\s*[+-]\s*(?=[\w(\\])", side, maxsplit=1)


def candidates(text: str, gold: str) -> list[str]:
    """Texts to be boxed: of balanced braces, with an operation or a command, and not the gold's."""
    found: dict[str, None] = {}
    for match in _MATHS.finditer(text):
        formula = next(filter(None, match.groups()[1:]))
        for part in [*parts(formula), f"{match[1]} {formula}"]:
            layout = flat(tidy(part)) if len(part) < 300 else ""
            if layout and layout != flat(tidy(gold)) and _GROUP.fullmatch(f"{{{part}}}"):
                found[part.strip()] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--solutions", action="store_true", help="Formulas of the solutions.")
    parser.add_argument("--without", action="store_true", help="The judge has no question.")
    parser.add_argument("--show", action="store_true", help="Print what is rewarded.")
    options = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    lines = options.data.read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        question, solution = str(row.get("problem") or row["question"]), str(row["solution"])
        gold = boxed(solution) or ""
        before = solution.partition("\\boxed")[0]
        text = before[: before.rfind("$")] if options.solutions else question
        rows += [(question, gold, each) for each in candidates(text, gold)]
    started = time.perf_counter()
    verdicts = grade(
        [f"\\boxed{{{candidate}}}" for *_, candidate in rows],
        [gold for _, gold, _ in rows],
        questions=() if options.without else [question for question, *_ in rows],
    )
    right = [row for row, one in zip(rows, verdicts, strict=True) if one.status == "correct"]
    for question, gold, candidate in right if options.show else ():
        print(f"{question[:100]!r}\n    gold {gold}\n    rewarded {candidate!r}")
    solved = len({question for question, *_ in right})
    print(
        f"{len(lines)} questions, {len(rows)} formulas: {len(right)} rewarded, "
        f"of {solved} questions ({time.perf_counter() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
