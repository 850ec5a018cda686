"""True forks: how many of them each method keeps of the same rollouts."""

from ictcli.compare.comparison import Comparison
from ictcli.compare.numbers import percent, whole
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.palette import Looks, method_table
from ictcli.compare.shared_rollouts import ForkComparison

OWN_COLUMNS: list[doc.Column[ForkComparison]] = [
    doc.column("kept", lambda row: row.own.kept, whole),
    doc.column("forks kept", lambda row: row.own.hits, whole, "hits"),
    doc.column("share, %", lambda row: row.own.share, percent, "own share"),
    doc.column("recall, %", lambda row: row.own.recall, percent, "own recall"),
    doc.column("precision, %", lambda row: row.own.precision, percent, "own precision"),
    doc.column(
        "random: recall, %", lambda row: row.random_at_own.recall, percent, "random_at_own recall"
    ),
    doc.column(
        "random: precision, %",
        lambda row: row.random_at_own.precision,
        percent,
        "random_at_own precision",
    ),
]


def forks(comparison: Comparison, looks: Looks) -> list[doc.Block]:
    compared = comparison.forks
    if not compared:
        absent = "The task does not say where its true forks are, so none are compared."
        return [doc.Text(absent, "absent")]
    batch = compared[0]
    caption = (
        "True forks, the tokens at which the task's solutions part: recall is how many of them a "
        "method keeps, precision how many of its kept tokens are forks. From the same rollouts of "
        f"the model before training for every method, one batch of one seed: {batch.problems:,} "
        f"problems, {batch.tokens:,} tokens, {batch.forks:,} of them forks."
    )
    panels = [figures.forks("recall", compared, looks), figures.forks("precision", compared, looks)]
    own = (
        "Recall and precision of the true forks at each method's own share, and of one draw of as "
        "many random tokens (random): recall grows with the share."
    )
    rows = {each.method: each for each in compared}
    return [
        doc.Figure("forks", caption, panels, figures.fork_keys()),
        method_table("forks", own, looks, OWN_COLUMNS, rows),
    ]
