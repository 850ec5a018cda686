"""Verifiers: a response and its gold answer to a verdict.

`grade` judges one response or many; with `explain=True` it says why. Add a verifier with
`register_verifier(name)` in a plugin file, or name a function, `my_rewards.py:grade`;
docs/extending.md.
"""

from ictcli.rewards import builtin as builtin  # registers the built-in verifiers
from ictcli.rewards.explanations import Explanation, Reading
from ictcli.rewards.grading import LIMITS, Limits, grade
from ictcli.rewards.verifiers import (
    VERIFIERS,
    Judge,
    Status,
    Verdict,
    Verifier,
    as_verifier,
    find_verifier,
    register_verifier,
)

__all__ = [
    "LIMITS",
    "VERIFIERS",
    "Explanation",
    "Judge",
    "Limits",
    "Reading",
    "Status",
    "Verdict",
    "Verifier",
    "as_verifier",
    "find_verifier",
    "grade",
    "register_verifier",
]
