"""maj@n: whether the most frequent answer to a problem is correct."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ictcli.evaluation.samples import PARSED, Sample
from ictcli.rewards import LIMITS, Judge, Limits, Verifier, grade
from ictcli.types import FloatArray


def majority(
    rows: Sequence[Sequence[Sample]], verify: Verifier | Judge, limits: Limits = LIMITS
) -> FloatArray | None:
    """Return scores (problems,): 1 if the correct answers are the largest group, 1/m if they are
    one of m largest groups, else 0. None if the verifier extracts no answers.

    Correct answers are one group. Wrong answers are grouped by their text, or by the verifier's
    equality if it compares answers (math, integer). Unparsed and timed-out samples do not vote."""
    values = np.zeros(len(rows))
    undecided: dict[int, tuple[int, Counter[str]]] = {}
    for problem, row in enumerate(rows):
        parsed = [sample for sample in row if sample.status in PARSED]
        if not all(sample.extracted for sample in parsed):
            return None
        right = sum(sample.status == "correct" for sample in parsed)
        texts = Counter(" ".join(s.extracted.split()) for s in parsed if s.status == "wrong")
        largest, wrong = max(texts.values(), default=0), texts.total()
        if right > wrong:
            values[problem] = 1.0  # the largest group, however wrong answers are grouped
        elif right and right >= largest:
            undecided[problem] = (right, texts)
    for problem, groups in _group_sizes(undecided, verify, limits).items():
        right = undecided[problem][0]
        if right >= max(groups):
            values[problem] = 1.0 / (1 + groups.count(right))
    return values


def _group_sizes(
    votes: dict[int, tuple[int, Counter[str]]], verify: Verifier | Judge, limits: Limits
) -> dict[int, list[int]]:
    """Return the sizes of the groups of equal wrong answers, by problem. Each text, the most
    frequent first, joins the first group whose first text it equals. A problem's grouping stops as
    soon as it is certain whether the correct group is the largest."""
    groups: dict[int, dict[str, int]] = {problem: {} for problem in votes}
    left = {problem: texts.most_common() for problem, (_, texts) in votes.items()}
    while left:
        nexts = {problem: texts.pop(0) for problem, texts in left.items()}
        pairs = [(p, text, leader) for p, (text, _) in nexts.items() for leader in groups[p]]
        equal = _equal([(text, leader) for _, text, leader in pairs], verify, limits)
        joined: dict[int, str] = {}
        for (problem, _, leader), same in zip(pairs, equal, strict=True):
            if same:
                joined.setdefault(problem, leader)
        for problem, (text, count) in nexts.items():
            leader = joined.get(problem, text)
            groups[problem][leader] = groups[problem].get(leader, 0) + count
            right, largest = votes[problem][0], max(groups[problem].values())
            if largest > right or largest + sum(count for _, count in left[problem]) < right:
                left[problem] = []  # other texts cannot change the result
        left = {problem: texts for problem, texts in left.items() if texts}
    return {problem: list(sizes.values()) for problem, sizes in groups.items()}


def _equal(
    pairs: Sequence[tuple[str, str]], verify: Verifier | Judge, limits: Limits
) -> list[bool]:
    """Return for each pair whether the verifier accepts either text with the other as the gold
    answer. False for all pairs if the verifier does not compare answers."""
    if not isinstance(verify, Verifier) or verify.golds is None:
        return [False] * len(pairs)
    ways = [*pairs, *((leader, text) for text, leader in pairs)]
    boxes = [f"\\boxed{{{text}}}" for text, _ in ways]
    verdicts = grade(boxes, [gold for _, gold in ways], verify, limits=limits)
    right = [verdict.status == "correct" for verdict in verdicts]
    return [right[at] or right[at + len(pairs)] for at in range(len(pairs))]
