"""Runs side by side on the screen: what differs in them, and what they reached."""

from collections.abc import Sequence
from typing import Any

from ictcli.console.live import printable
from ictcli.console.plain import narrate
from ictcli.console.runs import short, shown_value, size, tell
from ictcli.console.table import stdout_width, table
from ictcli.evaluation.report import TextTable, first_fitting, interval


def differences(found: dict[str, Any]) -> None:
    """Tables of what differs, a column a run, and of what was reached."""
    names = [printable(one["run"]) for one in found["runs"]]
    heads = [chr(ord("A") + number) if number < 26 else str(number) for number in range(len(names))]
    for head, name, one in zip(heads, names, found["runs"], strict=True):
        print(f"{head}: {name} ({one['state']}, step {one['step']})")
    for part in ("recipe", "data", "environment"):
        rows = [
            [printable(key), *(short(shown_value(value), 60) for value in values)]
            for key, values in found[part].items()
        ]
        print()
        if rows:
            table([part, *heads], rows)
        else:
            print(f"{part}: the same")
    results = found["results"]
    keys = list(dict.fromkeys(key for one in results for key in one))
    if any(value is not None for one in results for value in one.values()):
        ways = [
            TextTable(
                ["after training", *heads],
                [[key, *_reached(key, results, folded=folded)] for key in keys],
            )
            for folded in (False, True)
        ]
        grid = first_fitting(ways, stdout_width())
        print()
        table(grid.columns, grid.rows, least=grid.width)
    _differences_from_first(found["paired"], heads)


def _reached(key: str, results: Sequence[dict[str, Any]], *, folded: bool) -> list[str]:
    values = [one.get(key) for one in results]
    if key.startswith(("pass@", "maj@")):
        return [interval(value, folded=folded) for value in values]
    if key == "peak_bytes":
        return ["-" if value is None else size(int(value)) for value in values]
    if key == "tokens_kept_share":
        return ["-" if value is None else f"{value:.1%}" for value in values]
    return ["-" if value is None else f"{value:,.6g}" for value in values]


def _differences_from_first(paired: Sequence[dict[str, Any]], heads: Sequence[str]) -> None:
    rows = [
        [head, name, interval(value, sign="+") + (" *" if value["differs"] else "")]
        for head, one in zip(heads[1:], paired, strict=True)
        for name, value in one.items()
        if name.startswith("pass@")
    ]
    if rows:
        print()
        table(["run", "metric", f"minus {heads[0]}"], rows)
        tell(
            "paired by problem, 95 % intervals by bootstrap over problems; * where 0 is outside. "
            "They say nothing of other seeds: ictcli compare does."
        )
    for head, one in zip(heads[1:], paired, strict=True):
        if "why_not" in one:
            narrate(f"{head} and {heads[0]}: {one['why_not']}.")
