"""The paper's numbers, what failed, what cannot be said, and how all of it was made."""

from collections.abc import Mapping

from ictcli.compare.comparison import Comparison, VariantRecord
from ictcli.compare.numbers import (
    ABSENT,
    counted,
    listed,
    p_value,
    percent,
    setting,
    whole,
)
from ictcli.compare.report import document as doc
from ictcli.compare.report.training import tunes_rate

METHOD_COLUMNS: list[doc.Column[VariantRecord]] = [
    doc.text_column("label", lambda row: row.label),
    doc.text_column("method", lambda row: row.method),
    doc.text_column("tokens trained", lambda row: row.summary, "summary"),
    doc.text_column("source", lambda row: row.source),
    doc.text_column("settings", lambda row: " ".join(row.overrides) or ABSENT, "overrides"),
    doc.column("lr", lambda row: row.lr, setting),
    doc.column("runs", lambda row: row.runs, whole),
    doc.column("failed", lambda row: row.failed, whole),
]
ABOUT_COLUMNS: list[doc.Column[tuple[str, object]]] = [
    doc.text_column("name", lambda row: row[0]),
    doc.text_column("value", lambda row: _with_commas(row[1])),
]


def paper(comparison: Comparison) -> doc.Section:
    title, numbers = "The paper's numbers", comparison.paper
    if not numbers:
        absent = "The paper has no numbers for this model and task, so none stand beside ours."
        return doc.Section("paper", title, [doc.Text(absent, "absent")])
    benchmarks = list(dict.fromkeys(key for row in numbers.rows for key in row if key != "method"))
    columns: list[doc.Column[Mapping[str, str]]] = [
        doc.text_column("method", lambda row: row["method"]),
        *(_paper_column(name) for name in benchmarks),
        *(_our_column(comparison, metric) for metric in comparison.estimates),
    ]
    caption = (
        "What the paper (arXiv 2606.19771) reports, beside what was measured here. It gives no "
        "variance."
    )
    table = doc.report_table("paper", caption, columns, numbers.rows, numbers.note)
    return doc.Section("paper", title, [table])


def _paper_column(name: str) -> doc.Column[Mapping[str, str]]:
    return doc.Column(name, lambda row: doc.text_cell(row.get(name, ABSENT)), (f"paper {name}",))


def _our_column(comparison: Comparison, metric: str) -> doc.Column[Mapping[str, str]]:
    def value(row: Mapping[str, str]) -> float | None:
        estimate = comparison.estimates[metric].get(row["method"])
        return estimate.value if estimate else None

    return doc.column(f"ours: {metric}, %", value, percent, f"ours {metric}")


def failed(comparison: Comparison) -> doc.Section:
    if not comparison.failed:
        return doc.Section("failed", "Failed runs", [doc.Text("No run failed.", "absent")])
    heading = f"{counted(len(comparison.failed), 'run')} failed, in no figure or table:"
    note = "Differences are over the seeds that both methods finished; failures may not be chance."
    return doc.Section(
        "failed",
        "Failed runs",
        [doc.Text(heading), doc.Items(comparison.failed), doc.Text(note, "note")],
    )


def limits(comparison: Comparison) -> doc.Section:
    seeds, problems = len(comparison.seeds), comparison.problems
    size = comparison.device.get("parameters")
    model = comparison.model + (f" ({size:,} parameters)" if size else "")
    items = [
        f"One task ({comparison.task}), one model ({model}), "
        f"{counted(comparison.steps, 'step')}: nothing here says what other tasks, larger models "
        "or longer training would show."
    ]
    items.append(
        "One seed: no method can be told from the luck of its run. Nothing is decided."
        if seeds == 1
        else f"{seeds} seeds: how runs vary is itself known only roughly. A test that takes "
        f"nothing for granted cannot give a p below {p_value(2.0 ** (1 - seeds))}; the p after "
        "Holm takes the luck of runs to be about normal."
    )
    differences = [each for rows in comparison.differences.values() for each in rows.values()]
    tested = [each for each in differences if each.p is not None and each.seeds > 1]
    if sizes := [1.0 if each.detectable is None else each.detectable for each in tested]:
        between = dict.fromkeys((percent(min(sizes)), percent(max(sizes))))
        items.append(
            f"With {counted(problems, 'problem')} and these seeds, differences under "
            f"{' to '.join(between)} points (by method and k) are likely to be missed. Undecided "
            "is not the same as equal."
        )
    if not tunes_rate(comparison):
        items.append(
            "The learning rate was not chosen for each method: methods of different normalisation "
            "do not take steps of the same size at one."
        )
    items += [
        "Choices, overlap, forks and uniqueness are of one batch of one seed of the model before "
        "training. Intervals, where they have any, are for other problems alone, not for other "
        "seeds; later in training the choices may differ.",
        "The methods differ in which tokens they train and how those are weighed; all else is the "
        "recipe's. Their own papers' full recipes may do better or worse.",
    ]
    return doc.Section("limits", "What this cannot say", [doc.Items(items)])


def made(comparison: Comparison) -> doc.Section:
    """The methods, the command, the recipe and the versions."""
    device = {f"device: {key}": value for key, value in comparison.device.items() if value}
    about = {**comparison.versions, **device}
    blocks: list[doc.Block] = [
        doc.report_table("methods", "The methods.", METHOD_COLUMNS, comparison.variants),
        doc.Code("The command", comparison.command),
        doc.report_table("versions", "Versions and device.", ABOUT_COLUMNS, about.items()),
        doc.Text(_seeds(comparison), "note"),
        doc.Code("The recipe of the first method", comparison.recipe_toml),
    ]
    return doc.Section("made", "How this was made", blocks)


def _seeds(comparison: Comparison) -> str:
    incomplete = [
        f"{each.label} finished {each.runs} of {each.runs + each.failed}"
        for each in comparison.variants
        if each.failed
    ]
    ran = "Every method of the tables ran with each of them."
    if incomplete:
        ran = f"Not every method finished each: {listed(incomplete)}."
    return f"Seeds: {', '.join(map(str, comparison.seeds))}. {ran}"


def _with_commas(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
