"""What `ictcli compare` says before and between its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ictcli.compare.outlook import Outlook
from ictcli.compare.plan import Member
from ictcli.console.plain import duration, narrate
from ictcli.console.table import table


def planned(runs: Sequence[Member], outlook: Outlook, jobs: int) -> None:
    """The runs as a table, and what they will take."""
    table(
        ["run", "method", "seed", "steps", "lr"],
        [
            [
                str(one.folder),
                one.variant.label,
                str(one.seed),
                str(one.recipe.steps),
                f"{one.recipe.lr:g}",
            ]
            for one in runs
        ],
    )
    at_once = f", {jobs} at a time if each has a core to itself" if jobs > 1 else ""
    narrate(
        f"\n{len(runs)} runs, {outlook.runs} of them to do: about "
        f"{duration(outlook.seconds)}{at_once}, and {outlook.bytes / 2**20:,.0f} MiB of disk; "
        "from two steps of one run, timed now."
    )


def tuned_to(chosen: Mapping[str, str]) -> None:
    """Which value each variant goes on with."""
    narrate("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
