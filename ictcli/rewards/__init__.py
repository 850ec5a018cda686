"""Verifiers: a response and its gold answer to a verdict, and the reward of it.

Add one: register a function `(response, gold) -> Verdict` with `register_verifier(name)` in a
plugin file; README, "A verifier of your own".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ictcli.errors import UserError, nearest

Status = Literal["correct", "wrong", "unparsed"]


@dataclass(frozen=True)
class Verdict:
    """`extracted` is the answer that was read from the response, as text."""

    status: Status
    extracted: str = ""

    @property
    def reward(self) -> float:
        return 1.0 if self.status == "correct" else 0.0


Verifier = Callable[[str, str], Verdict]

VERIFIERS: dict[str, Verifier] = {}


def register_verifier(name: str) -> Callable[[Verifier], Verifier]:
    """Decorator: make a function available to tasks under `name`."""

    def add(verify: Verifier) -> Verifier:
        VERIFIERS[name] = verify
        return verify

    return add


def find_verifier(name: str) -> Verifier:
    """The verifier of that name; UserError with the nearest name where there is none."""
    if name not in VERIFIERS:
        raise UserError(
            f"There is no verifier {name!r}{nearest(name, sorted(VERIFIERS))}.",
            "the verifiers are: " + ", ".join(sorted(VERIFIERS)),
        )
    return VERIFIERS[name]


def grade(verify: Verifier, responses: Sequence[str], golds: Sequence[str]) -> list[Verdict]:
    """One verdict a response. A verifier that raises makes that answer unparsed, no other."""
    verdicts: list[Verdict] = []
    for response, gold in zip(responses, golds, strict=True):
        try:
            verdicts.append(verify(response, gold))
        except Exception:
            verdicts.append(Verdict("unparsed"))
    return verdicts


@register_verifier("chain")
def chain(response: str, gold: str) -> Verdict:
    """The value on the last line of a chain, which must end in `#`."""
    from ictcli.tasks.chain import problem  # tasks need rewards first

    status = cast(Status, problem.verify(response, gold))
    final = response.rstrip("#").rpartition(";")[2]
    return Verdict(status, "" if status == "unparsed" else final)


from ictcli.rewards import math as _math  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
