"""maj@n: whether the answer that most samples of a problem give is the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ictcli.evaluation.samples import PARSED, Sample
from ictcli.rewards import LIMITS, Judge, Limits, Verifier, grade
from ictcli.types import FloatArray


def majority(
    rows: Sequence[Sequence[Sample]], verify: Verifier | Judge, limits: Limits = LIMITS
) -> FloatArray | None:
    """(problems,) shares: 1 where the correct answers are the largest group of a problem's, 1/m
    where they are one of m largest, 0 else. None where the verifier extracts no answers.

    Correct answers are one group. Wrong ones are grouped by their text, and where the verifier
    compares answers (math, integer), by what it calls equal. What is unparsed or timed out does not
    vote.
    """
    values = np.zeros(len(rows))
    open_: dict[int, tuple[int, Counter[str]]] = {}
    for place, row in enumerate(rows):
        parsed = [sample for sample in row if sample.status in PARSED]
        if not all(sample.extracted for sample in parsed):
            return None
        right = sum(sample.status == "correct" for sample in parsed)
        texts = Counter(_plain(s.extracted) for s in parsed if s.status == "wrong")
        largest, wrong = max(texts.values(), default=0), texts.total()
        if right > wrong:
            values[place] = 1.0  # however the others are grouped
        elif right and right >= largest:
            open_[place] = (right, texts)
    for place, (right, sizes) in _grouped(open_, verify, limits).items():
        if right >= max(sizes):
            values[place] = 1.0 / (1 + sizes.count(right))
    return values


def _plain(text: str) -> str:
    return " ".join(text.split())


def _grouped(
    asked: dict[int, tuple[int, Counter[str]]], verify: Verifier | Judge, limits: Limits
) -> dict[int, tuple[int, list[int]]]:
    """Correct answers and the sizes of the groups of equal wrong ones, by problem, of (correct
    answers, wrong texts), as far as they decide which is largest.

    Each text, the most frequent first, joins the first group whose first text it equals; all
    problems are asked about side by side.
    """
    groups: dict[int, dict[str, int]] = {place: {} for place in asked}
    left = {place: texts.most_common() for place, (_, texts) in asked.items()}
    while left:
        news = {place: texts.pop(0) for place, texts in left.items()}
        pairs = [(place, text, old) for place, (text, _) in news.items() for old in groups[place]]
        equal = _equal([(text, old) for _, text, old in pairs], verify, limits)
        joined: dict[int, str] = {}
        for (place, _, old), same in zip(pairs, equal, strict=True):
            if same:
                joined.setdefault(place, old)
        for place, (text, count) in news.items():
            name = joined.get(place, text)
            groups[place][name] = groups[place].get(name, 0) + count
            right, largest = asked[place][0], max(groups[place].values())
            if largest > right or largest + sum(count for _, count in left[place]) < right:
                left[place] = []  # the rest changes nothing
        left = {place: texts for place, texts in left.items() if texts}
    return {place: (right, list(groups[place].values())) for place, (right, _) in asked.items()}


def _equal(
    pairs: Sequence[tuple[str, str]], verify: Verifier | Judge, limits: Limits
) -> list[bool]:
    """Whether the verifier calls the texts of each pair equal; those without a comparison of
    answers know no equality but that of the text."""
    if not isinstance(verify, Verifier) or verify.answers is None:
        return [False] * len(pairs)
    boxes = [f"\\boxed{{{text}}}" for text, _ in pairs]
    found = grade(boxes, [leader for _, leader in pairs], verify, limits=limits)
    return [verdict.status == "correct" for verdict in found]
