"""What `ictcli inspect --branches` prints."""

from dataclasses import asdict

from ictcli.console.lines import output
from ictcli.console.table import print_json, print_table
from ictcli.inspect.branches import Branches, Placement
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, percent, shown_share
from ictcli.text import figure

COLUMNS = [
    Column[Placement]("method", lambda row: row.method, str),
    Column[Placement]("tokens kept, %", lambda row: row.kept, percent),
    Column[Placement]("branches kept, %", lambda row: row.branch_recall, percent),
    Column[Placement]("of the kept, branches, %", lambda row: row.branch_precision, percent),
    Column[Placement]("sure, %", lambda row: row.kept_sure, percent),
    Column[Placement]("mean p", lambda row: row.kept_prob),
    Column[Placement]("high:low H1", lambda row: row.high_low_ratio),
    Column[Placement]("correlation with H1", lambda row: row.entropy_spearman),
]


def print_branches(placed: Branches, *, as_json: bool) -> None:
    """Print where the tokens of methods lie as tables, or as JSON."""
    if as_json:
        print_json(asdict(placed))
        return
    output(
        f"{placed.source} on {placed.task}: {counted(placed.responses, 'response')} in groups of "
        f"{placed.group}, temperature {placed.temperature:g}, {counted(placed.tokens, 'token')}.",
        f"Branches, where responses to one prompt part: {shown_share(placed.branch_share)} of the "
        f"tokens. A response stands alone from token {figure(placed.alone_from, 'g')} (median).",
        f"Sure tokens (p > 0.99): {shown_share(placed.sure)}. Mean p: {placed.prob:.2f}.",
    )
    if placed.uniqueness is not None:
        output(
            f"Uniqueness u: mean {placed.uniqueness:.3f}; its rank correlation with the entropy "
            f"H1: {figure(placed.uniqueness_entropy_spearman, '+.2f')}."
        )
    output("")
    print_table(Table(COLUMNS, placed.placements))
    output("", "By chance a method keeps as many branches as tokens.", *placed.missing.values())
