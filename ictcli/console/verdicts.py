"""What `ictcli grade` shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from ictcli.console.plain import narrate
from ictcli.console.table import table
from ictcli.rewards.files import Row
from ictcli.rewards.verifiers import STATUSES, Verdict

SHOWN = 5


def graded(
    rows: Sequence[Row], verdicts: Sequence[Verdict], unread: Sequence[int], *, as_json: bool
) -> None:
    """Counts by status, and the commonest reasons; or every verdict as JSON. `unread` are the
    lines whose gold cannot be read."""
    if unread:
        lines = ", ".join(map(str, unread[:SHOWN])) + (", ..." if len(unread) > SHOWN else "")
        narrate(
            f"note: {len(unread)} gold{'s' * (len(unread) > 1)} cannot be read (line {lines}): "
            "only an answer that is the same letter by letter is correct there"
        )
    if as_json:
        shown = [
            {"line": row.number, **asdict(verdict)}
            for row, verdict in zip(rows, verdicts, strict=True)
        ]
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    counts = {status: sum(one.status == status for one in verdicts) for status in STATUSES}
    table(
        ["", "responses", "share"],
        [[status, f"{n:,}", f"{n / len(verdicts):.1%}"] for status, n in counts.items()],
    )
    reasons = [one.reason for one in verdicts if one.reason]
    common = sorted(set(reasons), key=lambda one: (-reasons.count(one), one))
    for reason in common[:SHOWN]:
        narrate(f"{reasons.count(reason):,} x {reason}")
