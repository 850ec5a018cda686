"""Runs on the screen: a list, and one in full."""

import os
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from ictcli.console.live import printable, sparkline
from ictcli.console.plain import narrate
from ictcli.console.table import stdout_width, table
from ictcli.evaluation.report import TextTable, first_fitting, interval
from ictcli.runs.list import Entry
from ictcli.runs.show import flat
from ictcli.text import duration

STYLES = {"finished": "green", "running": "cyan", "stopped": "yellow", "failed": "red"}
WAYS = (
    ("run", "state", "step", "recipe", "model", "task", "method", "seed", "pass@1", "took", "when"),
    ("run", "state", "step", "model", "method", "seed", "pass@1", "took", "when"),
    ("run", "state", "step", "method", "seed", "pass@1", "took", "when"),
    ("run", "state", "step", "method", "pass@1", "when"),
    ("run", "state", "step", "pass@1"),
)
"""Columns of the list, from those of a wide terminal to those of a narrow one."""
SHORT = 40
MAIN = ("lr", "prompts", "group", "temperature", "max_tokens", "keep", "warmup", "kl", "entropy")
MAIN_TABLES = ("update.epochs", "update.minibatch", "adapter.kind")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def ago(when: str) -> str:
    """`5m ago`, `3h ago`, `12d ago`."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit} ago"
    return "now"


def size(taken: int) -> str:
    """`3.2 MiB`."""
    value, unit = float(taken), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def short(text: str, width: int = SHORT) -> str:
    """One line of at most `width` characters; of a longer one its end, where names differ."""
    text = printable(text)
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def gain(before: float | None, after: float | None) -> str:
    if before is None and after is None:
        return "-"
    return " → ".join("-" if one is None else f"{one:.3f}" for one in (before, after))


def _cells(one: Entry, folder: Path) -> dict[str, str]:
    name = os.path.relpath(one.run, folder)
    model = Path(one.model).name if one.model.startswith("/") else one.model
    return {
        "run": printable(one.run if name == "." else name),
        "state": one.state,
        "step": f"{one.step}/{'?' if one.steps is None else one.steps}",
        "recipe": short(one.recipe or "-", 24),
        "model": short(model or "-", 28),
        "task": short(Path(one.task).name or "-", 16),
        "method": short(one.method or "-", 16),
        "seed": "-" if one.seed is None else str(one.seed),
        "pass@1": gain(one.before, one.after),
        "took": "-" if one.seconds is None else duration(one.seconds),
        "when": ago(one.when),
    }


def listing(found: Sequence[Entry], folder: Path) -> None:
    """A row a run, in as many columns as fit."""
    if not found:
        narrate(f"No runs in {folder}; ictcli train quickstart makes one.")
        return
    rows = [_cells(one, folder) for one in found]
    ways = [TextTable(list(way), [[row[name] for name in way] for row in rows]) for way in WAYS]
    grid = first_fitting(ways, stdout_width())
    styled = [[Text(cell, style=STYLES.get(cell, "")) for cell in row] for row in grid.rows]
    table(grid.columns, styled, least=grid.width)
    for one in found:
        if one.note:
            narrate(f"{printable(one.run)}: {printable(one.note)}")
    states = [one.state for one in found]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    runs = f"{len(found)} run{'s' * (len(found) != 1)}"
    tell(f"{runs} in {folder}: {counted}; in full: ictcli runs show RUN")


def tell(text: str) -> None:
    """A paragraph of narration, as wide as the terminal."""
    err = Console(stderr=True)
    narrate("\n" + (textwrap.fill(text, err.width) if err.is_terminal else text))


def _pairs(title: str, pairs: Sequence[tuple[str, str]]) -> None:
    """A title, and names with values below it."""
    if pairs:
        print(f"\n{title}")
        wide = max(len(name) for name, _ in pairs)
        width = stdout_width() or 0
        for name, value in pairs:
            lines = [value]
            if width > wide + 24:
                lines = textwrap.wrap(value, width - wide - 4, break_long_words=False) or [""]
            for number, line in enumerate(lines):
                print(f"  {'' if number else name:{wide}}  {line}".rstrip())


def shown_value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, cast(list[object], value)))) or "-"
    return printable(str(value)) or "-"


def shown(found: dict[str, Any]) -> None:
    """One run, section by section."""
    told = f"{printable(found['run'])}: {found['state']}"
    steps = "?" if found["steps"] is None else found["steps"]
    print(f"{told}, step {found['step']} of {steps}, {ago(found['when'])}")
    if found["note"]:
        print(f"  {printable(found['note'])}")
    keys = flat(found["keys"])
    method = [
        f"{name.removeprefix('method.')}={shown_value(value)}"
        for name, value in keys.items()
        if name.startswith("method.") and name != "method.name"
    ]
    lines = [
        ("model", shown_value(found["model"])),
        ("task", shown_value(found["task"])),
        ("method", " ".join([shown_value(found["method"]), *method])),
        ("seed", shown_value(found["seed"])),
    ]
    rest = [name for name in MAIN if name in keys]
    rest += [name for name in MAIN_TABLES if keys.get(name) not in (None, "none", 0)]
    rest += ["adapter.rank"] * ("adapter.kind" in rest and "adapter.rank" in keys)
    lines.append(("settings", "  ".join(f"{name}={shown_value(keys[name])}" for name in rest)))
    _pairs("recipe", [(name, value) for name, value in lines if value not in ("", "-")])
    _pairs("data", [(name, shown_value(value)) for name, value in flat(found["data"]).items()])
    _environment(found["environment"])
    _progress(found)
    _curves(found["metrics"])
    _evaluations(found["evaluations"])
    disk = [(name, size(taken)) for name, taken in found["bytes"].items()]
    _pairs("disk", disk)
    _pairs(
        "checkpoints",
        [
            (Path(one["path"]).name, size(one["bytes"]) + ("" if one["whole"] else "  not whole"))
            for one in found["checkpoints"]
        ],
    )
    for command in found["next"]:
        narrate(f"{'' if command != found['next'][0] else chr(10)}next:  {command}")


def _environment(environment: dict[str, Any]) -> None:
    known = flat(environment)
    engine = [known.get(f"engine.{name}") for name in ("engine", "device", "dtype", "device_name")]
    libraries = [
        f"{name.removeprefix('libraries.')} {value}"
        for name, value in known.items()
        if name.startswith("libraries.")
    ]
    pairs = [
        ("engine", " ".join(str(part) for part in engine if part)),
        (
            "parameters",
            "" if (parameters := known.get("engine.parameters")) is None else f"{parameters:,}",
        ),
        ("machine", str(known.get("platform", ""))),
        ("versions", f"ictcli {known.get('ictcli', '?')}, python {known.get('python', '?')}"),
        ("libraries", ", ".join(libraries)),
        ("command", _command(environment.get("command"))),
    ]
    if environment:
        _pairs("environment", [(name, printable(value)) for name, value in pairs if value])


def _command(words: object) -> str:
    if not isinstance(words, list):
        return ""
    return " ".join(["ictcli", *map(str, cast(list[object], words))])


def _progress(found: dict[str, Any]) -> None:
    pairs: list[tuple[str, str]] = []
    if found["seconds"] is not None:
        pairs.append(("time", duration(found["seconds"])))
    if (pace := found["seconds_per_step"]) is not None:
        pairs.append(("a step", f"{pace:.2f} s (median)"))
        if found["state"] in ("running", "stopped") and found["steps"]:
            left = pace * max(0, found["steps"] - found["step"])
            pairs.append(("left", f"{duration(left)} without evaluations"))
    if found["peak_bytes"]:
        pairs.append(("peak memory", size(found["peak_bytes"])))
    _pairs("progress", pairs)


def _curves(metrics: dict[str, Any]) -> None:
    if not metrics:
        return
    wide = (stdout_width() or 120) >= 100
    print()
    table(
        ["metric", "first", "last tenth", "least", "most", *(["course"] * wide)],
        [
            [
                name,
                *(f"{one[part]:.4g}" for part in ("first", "last_tenth", "least", "most")),
                *([sparkline(one["values"], 40)] * wide),
            ]
            for name, one in metrics.items()
        ],
    )


def _evaluations(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        return
    names = list(
        dict.fromkeys(name for one in found for name in one if name.startswith(("pass@", "maj@")))
    )
    ways = [
        TextTable(
            ["evaluation", "problems", *names],
            [
                [
                    printable(one["label"]),
                    "damaged" if "damaged" in one else f"{one.get('problems')} x {one.get('n')}",
                    *(interval(one.get(name), folded=folded) for name in names),
                ]
                for one in found
            ],
        )
        for folded in (False, True)
    ]
    grid = first_fitting(ways, stdout_width())
    print()
    table(grid.columns, grid.rows, least=grid.width)
