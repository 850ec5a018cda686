"""The paper's numbers, what failed, what cannot be said, and how all of it was made."""

from __future__ import annotations

from typing import Any

from ictcli.compare.report.document import (
    Block,
    Code,
    Column,
    Items,
    Section,
    Table,
    Text,
    mapping,
    text_column,
)
from ictcli.compare.report.numbers import (
    ABSENT,
    counted,
    listed,
    mixed,
    number,
    of,
    p_value,
    percent,
    setting,
    several_lines,
    word,
)
from ictcli.compare.report.training import tunes_rate
from ictcli.text import visible

Result = dict[str, Any]


def paper(result: Result) -> Section:
    title = "The paper's numbers"
    found: Any = result["paper"]
    if not found or not found["rows"]:
        absent = "The paper has no numbers for this model and task, so none stand beside ours."
        return Section("paper", title, [Text(absent, "absent")])
    names = list(dict.fromkeys(key for row in found["rows"] for key in row if key != "method"))
    ours = mapping(result["estimates"])
    columns = [
        text_column("method"),
        *(Column(visible(name), (f"paper {visible(name)}",)) for name in names),
        *(Column(f"ours: {metric}, %", (f"ours {metric}",)) for metric in ours),
    ]
    rows = [
        [
            word(row.get("method", "")),
            *(mixed(row.get(name)) for name in names),
            *(
                of(mapping(mine.get(row.get("method"))).get("value"), percent)
                for mine in ours.values()
            ),
        ]
        for row in found["rows"]
    ]
    caption = (
        "What the paper (arXiv 2606.19771) reports, beside what was measured here. It gives no "
        "variance."
    )
    return Section(
        "paper", title, [Table("paper", caption, columns, rows, visible(found.get("note") or ""))]
    )


def failed(result: Result) -> Section:
    found: Any = result["failed"] or []
    if not found:
        return Section("failed", "Failed runs", [Text("No run failed.", "absent")])
    are = "is" if len(found) == 1 else "are"
    told = f"{counted(len(found), 'run')} failed and {are} in no figure or table:"
    left = (
        "Differences are over the seeds that both methods finished; which runs fail may not be "
        "chance."
    )
    lines = Items([visible(line) for line in found])
    blocks: list[Block] = [Text(told), lines, Text(left, "note")]
    return Section("failed", "Failed runs", blocks)


def limits(result: Result) -> Section:
    seeds, problems = len(result["seeds"]), result["problems"]
    device = mapping(result["device"])
    size = device.get("parameters")
    model = visible(result["model"]) + (f" ({size:,} parameters)" if size else "")
    items = [
        f"One task ({visible(result['task'])}), one model ({model}), "
        f"{counted(result['steps'], 'step')}: nothing here says what other tasks, larger models "
        "or longer training would show."
    ]
    if seeds == 1:
        items.append(
            "One seed: no method can be told from the luck of its run. Nothing is decided."
        )
    else:
        least = p_value(2.0 ** (1 - seeds))
        items.append(
            f"{seeds} seeds: how runs vary is itself known only roughly. A test that takes nothing "
            f"for granted cannot give a p below {least}; the p after Holm takes the luck of runs "
            "to be about normal."
        )
    every = [one for mine in mapping(result["differences"]).values() for one in mine.values()]
    seen = [one["detectable"] for one in every if one["detectable"] is not None]
    if seen:
        items.append(
            f"With {counted(problems, 'problem')} and these seeds, differences under "
            f"{percent(min(seen))} to {percent(max(seen))} points (by method and k) are likely to "
            "be missed. Undecided is not the same as equal."
        )
    if not tunes_rate(result):
        items.append(
            "The learning rate was not chosen for each method: methods of different normalisation "
            "do not take steps of the same size at one."
        )
    items.append(
        "Choices, overlap, forks and uniqueness are of one batch of one seed of the model before "
        "training. Intervals, where they have any, are for other problems alone, not for other "
        "seeds; later in training the choices may differ."
    )
    items.append(
        "The methods differ in which tokens they train and how those are weighed; all else is the "
        "recipe's. Their own papers' full recipes may do better or worse."
    )
    return Section("limits", "What this cannot say", [Items(items)])


def made(result: Result) -> Section:
    """The methods, the command, the recipe and the versions."""
    columns = [
        text_column("label"),
        text_column("method"),
        text_column("tokens trained", "summary"),
        text_column("source"),
        text_column("settings", "overrides"),
        Column("lr", ("lr",)),
        Column("runs", ("runs",)),
        Column("failed", ("failed",)),
    ]
    rows = [
        [
            word(one["label"]),
            word(one["method"]),
            word(one["summary"]),
            word(one["source"]),
            word(" ".join(one["overrides"]) or ABSENT),
            of(one["lr"], setting),
            number(one["runs"]),
            number(one["failed"]),
        ]
        for one in result["variants"]
    ]
    blocks: list[Block] = [
        Table("methods", "The methods that were compared.", columns, rows),
        Code("The command", several_lines(result["command"])),
    ]
    versions = {**mapping(result["versions"])}
    device: Any = {
        f"device: {key}": value for key, value in mapping(result["device"]).items() if value
    }
    about = [[word(name), word(_plain(value))] for name, value in {**versions, **device}.items()]
    if about:
        columns = [text_column("name"), text_column("value")]
        blocks.append(Table("versions", "Versions and device.", columns, about))
    blocks.append(Text(_seeds(result), "note"))
    if result["recipe_toml"]:
        blocks.append(Code("The recipe of the first method", several_lines(result["recipe_toml"])))
    return Section("made", "How this was made", blocks)


def _seeds(result: Result) -> str:
    seeds = ", ".join(map(str, result["seeds"]))
    short = [
        f"{visible(one['label'])} finished {one['runs']} of {one['runs'] + one['failed']}"
        for one in result["variants"]
        if one["failed"]
    ]
    ran = f"Not every method finished each: {listed(short)}." if short else ""
    ran = ran or "Every method of the tables ran with each of them."
    return f"Seeds: {seeds}. {ran}"


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
