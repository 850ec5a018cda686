"""What `ictcli compare` says before and between its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ictcli.compare.outlook import Outlook
from ictcli.console.plain import narrate
from ictcli.console.table import table
from ictcli.text import duration


def planned(outlook: Outlook, jobs: int, *, as_json: bool) -> None:
    """The runs with what each will take alone, and what all of them will, as a table or JSON."""
    if as_json:
        print(json.dumps({"jobs": jobs, **outlook.json()}, indent=2, ensure_ascii=False))
        return
    table(
        ["run", "method", "seed", "steps", "lr", "time", "MiB"],
        [
            [
                str(one.member.folder),
                one.member.variant.label,
                str(one.member.seed),
                str(one.member.recipe.steps),
                "by tuning" if one.member.untuned == "lr" else f"{one.member.recipe.lr:g}",
                "finished" if one.finished else duration(one.seconds),
                "" if one.finished else f"{one.bytes / 2**20:,.0f}",
            ]
            for one in outlook.planned
        ],
    )
    at_once = f", {outlook.at_once} at a time" if outlook.at_once > 1 else ""
    if outlook.at_once < jobs:
        at_once += f" (--jobs {jobs} asks for more than there are cores for)"
    kinds = len(outlook.measured)
    of_each = "one run" if kinds == 1 else f"{kinds} kinds of run"
    narrate(
        f"\n{len(outlook.planned)} runs, {outlook.left} of them to do: about "
        f"{duration(outlook.seconds)}{at_once}, and {outlook.bytes / 2**20:,.0f} MiB of disk; "
        f"from steps of {of_each}, timed now."
    )


def tuned_to(chosen: Mapping[str, str], lost: Sequence[str]) -> None:
    """Which value each variant goes on with, and which go no further."""
    narrate("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
    for label in lost:
        narrate(f"note: {label} is left out: none of its tuning runs finished")
