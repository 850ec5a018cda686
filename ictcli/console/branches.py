"""The output of `ictcli inspect --branches`."""

from dataclasses import asdict

from ictcli.console.lines import output
from ictcli.console.live import BLOCKS
from ictcli.console.table import print_json, print_table
from ictcli.evaluation.passk import Interval
from ictcli.inspect.branches import PAPER, Branches, Placement
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, percent, shown_share
from ictcli.text import figure


def value(interval: Interval | None) -> float | None:
    return interval and interval.value


COLUMNS = [
    Column[Placement]("method", lambda row: row.method, str),
    Column[Placement]("tokens kept, %", lambda row: row.kept, percent),
    Column[Placement]("branches kept, %", lambda row: row.branch_recall, percent, bounded=True),
    Column[Placement]("later ones, %", lambda row: value(row.later_recall), percent),
    Column[Placement]("branches among kept, %", lambda row: row.branch_precision, percent),
    Column[Placement]("sure, %", lambda row: value(row.kept_sure), percent),
    Column[Placement]("mean p", lambda row: value(row.kept_prob)),
    Column[Placement]("high:low H1", lambda row: row.high_low_ratio),
    Column[Placement]("correlation with H1", lambda row: row.entropy_spearman),
    Column[Placement]("kept by tenth of H1", lambda row: bars(row.by_entropy), str),
]


def bars(shares: tuple[float, ...]) -> str:
    """Return a bar of block characters for each share, scaled to the largest."""
    most = max(shares) or 1.0
    return "".join(BLOCKS[min(7, int(share / most * 8))] if share else " " for share in shares)


def print_branches(placed: Branches, *, as_json: bool) -> None:
    """Print which tokens the methods keep, as a table or as JSON."""
    if as_json:
        print_json(asdict(placed) | {"paper": PAPER})
        return
    output(
        f"{placed.source} on {placed.task}: {counted(placed.responses, 'response')} in groups of "
        f"{placed.group}, temperature {placed.temperature:g}, {counted(placed.tokens, 'token')}.",
        f"Branches (tokens where responses to a prompt diverge): {shown_share(placed.branch_share)}"
        f"; {shown_share(placed.first_share)} of them are the first of their group. The median "
        f"response differs from all others from token {figure(placed.alone_from, 'g')} on.",
        f"Sure tokens (p > 0.99): {shown_share(placed.sure)}. Mean p: {placed.prob:.2f}.",
    )
    if placed.uniqueness is not None:
        output(
            f"Uniqueness u: mean {placed.uniqueness:.3f}, rank correlation with the entropy H1 "
            f"{figure(placed.uniqueness_entropy_spearman, '+.2f')}."
        )
    output("")
    print_table(Table(COLUMNS, placed.placements))
    output(
        "",
        "The last column goes from the tenth of the tokens with the lowest H1 to the tenth with "
        "the highest. A random choice keeps equal shares of branches and of tokens. Intervals are "
        "over prompts.",
    )
    if any(row.method.split()[0] == "ict" for row in placed.placements):
        output(
            "For the tokens that ict keeps on GSM8K the paper (arXiv 2606.19771) reports mean p "
            f"{PAPER['kept_prob']}, high:low {PAPER['high_low_ratio']}."
        )
    output(*placed.missing.values())
