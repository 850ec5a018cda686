"""What `ictcli grade` shows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from ictcli.console.plain import narrate
from ictcli.console.table import print_json, table
from ictcli.rewards.files import Response
from ictcli.rewards.verifiers import STATUSES, Verdict

SHOWN = 5


def graded(
    responses: Sequence[Response],
    verdicts: Sequence[Verdict],
    unread: Sequence[int],
    *,
    as_json: bool,
) -> None:
    """Counts by status and the most frequent reasons; or every verdict as JSON. `unread` are the
    lines whose gold cannot be read."""
    if unread:
        lines = ", ".join(map(str, unread[:SHOWN])) + (", ..." if len(unread) > SHOWN else "")
        narrate(
            f"note: {len(unread)} gold{'s' * (len(unread) > 1)} cannot be read (line {lines}): "
            "only an answer that is the same letter by letter is correct there"
        )
    if as_json:
        shown = [
            {"line": response.number, **asdict(verdict)}
            for response, verdict in zip(responses, verdicts, strict=True)
        ]
        print_json(shown)
        return
    counts = Counter(verdict.status for verdict in verdicts)
    table(
        ["", "responses", "share"],
        [[s, f"{counts[s]:,}", f"{counts[s] / len(verdicts):.1%}"] for s in STATUSES],
    )
    reasons = Counter(verdict.reason for verdict in verdicts if verdict.reason)
    for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]:
        narrate(f"{n:,} x {reason}")
