"""A run and those of other methods that were trained after it, in one table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ictcli.console.plain import narrate, narrate_paragraph
from ictcli.console.table import print_fitting, print_json
from ictcli.evaluation.passk import Difference
from ictcli.evaluation.report import Folded, TextTable, interval
from ictcli.runs.diff import Paired, difference
from ictcli.runs.records import Summary
from ictcli.text import duration, figure, shell_word


def print_beside(
    methods: Sequence[str], runs: Mapping[Path, Summary], *, as_json: bool = False
) -> None:
    """What each method reached, by the folder of its run, and how far it is from the first one;
    as JSON their summaries."""
    if as_json:
        print_json([summary.to_json() for summary in runs.values()])
        return
    first, *others = methods
    folders, summaries = list(runs), list(runs.values())
    paired = dict(zip(others, difference(folders).paired, strict=True))
    print_fitting(
        [
            _table(dict(zip(methods, summaries, strict=True)), paired, folded=folded)
            for folded in (False, True)
        ]
    )
    narrate_paragraph(
        f"{summaries[0].problems} held-out problems, {summaries[0].samples_per_problem} samples "
        "each, 95 % intervals over problems; * where the difference is not 0. One seed says "
        "nothing of others: ictcli compare does."
    )
    for method, pair in paired.items():
        if pair.why_not:
            narrate(f"{method} and {first}: {pair.why_not}.")
    narrate("")
    for method, folder in zip(methods, folders, strict=True):
        narrate(f"{method}: {folder}")
    names = " ".join(shell_word(folder) for folder in folders)
    narrate(f"next:  ictcli runs diff {names}", f"next:  ictcli inspect {shell_word(folders[0])}")


def narrate_unfinished(methods: Sequence[str], trained: Sequence[Path]) -> None:
    """What is trained and what has not begun, when the run of the method behind those fails or is
    interrupted."""
    for method, folder in zip(methods, trained, strict=False):
        narrate(f"trained: {method}, {folder}")
    if rest := methods[len(trained) + 1 :]:
        narrate(f"not begun: {', '.join(rest)}")


def _table(runs: Mapping[str, Summary], paired: Mapping[str, Paired], *, folded: bool) -> TextTable:
    """A row for the model before training and for each method."""
    first = next(iter(runs))
    before = runs[first].before
    least = next(iter(before))
    forks = any("fork_recall" in summary.kept_tokens for summary in runs.values())
    scores = [interval(score, folded=folded) for score in before.values()]
    rows = [["(before)", *scores, "", "", *[""] * forks, ""]]
    for method, summary in runs.items():
        gain = paired[method].scores.get(least) if method in paired else None
        rows.append(
            [
                method,
                *(interval(summary.after.get(name), folded=folded) for name in before),
                _gain(gain, folded=folded) if gain else "",
                f"{summary.tokens_kept_share:.1%}",
                *[figure(summary.kept_tokens.get("fork_recall"), ".1%")] * forks,
                duration(summary.wall_s),
            ]
        )
    columns = [f"{least} minus {first}", "tokens kept", *["forks kept"] * forks]
    if folded:
        columns = [Folded(name.replace(" ", "\n", 1)) for name in columns]
    return TextTable(["method", *before, *columns, "time"], rows)


def _gain(gain: Difference, *, folded: bool) -> str:
    """`+0.036 [-0.020, +0.091]`, or on two lines; a star behind the value or all where 0 is not in
    the interval."""
    star = " *" * gain.differs
    if folded:
        return Folded(f"{gain.value:+.3f}{star}\n{gain.low:+.3f} to {gain.high:+.3f}")
    return interval(gain, sign="+") + star
