"""Alarms on the entropy of a run: collapse and explosion, each against its first step."""

from __future__ import annotations

COLLAPSE_BELOW = 0.1
EXPLOSION_ABOVE = 3.0


def entropy_alarm(first: float, now: float) -> str | None:
    """`collapse`: mean H1 under a tenth of its first value; `explosion`: over three times."""
    if now < COLLAPSE_BELOW * first:
        return "collapse"
    if now > EXPLOSION_ABOVE * first:
        return "explosion"
    return None
