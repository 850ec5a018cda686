"""A run and those of other methods that were trained after it, in one table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ictcli.console.lines import narrate, narrate_paragraph
from ictcli.console.runs import narrate_unpaired
from ictcli.console.table import print_json, print_table
from ictcli.evaluation.passk import Difference, Interval
from ictcli.runs.diff import Paired, difference
from ictcli.runs.records import Summary
from ictcli.tables import Column, Table, score_columns
from ictcli.tables.numbers import Format, signed
from ictcli.text import duration, shell_word


def print_beside(methods: Sequence[str], runs: Mapping[Path, Summary], *, as_json: bool) -> None:
    """What each method reached, by the folder of its run, and how far it is from the first one;
    as JSON their summaries."""
    if as_json:
        print_json([summary.to_json() for summary in runs.values()])
        return
    first, *others = methods
    folders, summaries = list(runs), list(runs.values())
    paired = dict(zip(others, difference(folders).paired, strict=True))
    columns = _columns(dict(zip(methods, summaries, strict=True)), paired)
    print_table(Table(columns, ["(before)", *methods]))
    narrate_paragraph(
        f"{summaries[0].problems} held-out problems, {summaries[0].samples_per_problem} samples "
        "each, 95 % intervals over problems; * where the difference is not 0. One seed says "
        "nothing of others: ictcli compare does."
    )
    for method, summary in zip(methods, summaries, strict=True):
        if summary.unlearned:
            narrate(f"{method}: {summary.unlearned.sentence}")
    narrate_unpaired(paired, first)
    narrate("")
    for method, folder in zip(methods, folders, strict=True):
        narrate(f"{method}: {folder}")
    names = " ".join(shell_word(folder) for folder in folders)
    narrate(f"next:  ictcli runs diff {names}", f"next:  ictcli inspect {shell_word(folders[0])}")


def narrate_unfinished(methods: Sequence[str], trained: Sequence[Path]) -> None:
    """What is trained and what has not begun, when the run of the method after those fails or is
    interrupted."""
    for method, folder in zip(methods, trained, strict=False):
        narrate(f"trained: {method}, {folder}")
    if rest := methods[len(trained) + 1 :]:
        narrate(f"not begun: {', '.join(rest)}")


def _columns(runs: Mapping[str, Summary], paired: Mapping[str, Paired]) -> list[Column[str]]:
    first = next(iter(runs))
    least, *_ = metrics = list(runs[first].before)
    has_forks = any("fork_recall" in run.kept_tokens for run in runs.values())

    def reached(method: str) -> Mapping[str, Interval | None]:
        return runs[method].after if method in runs else runs[first].before

    def gain(method: str) -> Difference | None:
        return paired[method].scores.get(least) if method in paired else None

    def change(method: str) -> Difference | None:
        return runs[method].change.get(least) if method in runs else None

    def of_run(
        head: str, value: Callable[[Summary], float | None], form: Format = "{:.1%}".format
    ) -> Column[str]:
        return Column(head, lambda method: value(runs[method]) if method in runs else None, form)

    return [
        Column("method", lambda method: method, str),
        *score_columns(metrics, reached),
        Column(f"change in {least}", change, signed, bounded=True),
        Column(f"{least} minus {first}", gain, signed, bounded=True),
        of_run("tokens kept", lambda run: run.tokens_kept_share),
        *[of_run("forks kept", lambda run: run.kept_tokens.get("fork_recall"))] * has_forks,
        of_run("time", lambda run: run.wall_s, duration),
    ]
