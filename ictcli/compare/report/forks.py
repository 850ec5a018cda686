"""True forks: how many of them each method keeps of the same rollouts, and how sure that is."""

from collections.abc import Mapping, Sequence

from ictcli.compare.comparison import Comparison
from ictcli.compare.forks import EQUAL_SHARE, ForkComparison, ForkFigures, Gap
from ictcli.compare.numbers import listed, percent, points, whole
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.palette import Looks, method_table

RANDOM, ENTROPY = "as many random tokens", "as many of highest entropy"
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
EqualRow = tuple[ForkComparison, ForkFigures]
"""A variant, and its figures at the equal share."""
EQUAL_COLUMNS: list[doc.Column[EqualRow]] = [
    doc.column("kept", lambda row: row[1].kept, whole),
    doc.column("forks kept", lambda row: row[1].hits, whole, "hits"),
    doc.column("share, %", lambda row: row[1].share, percent, "share"),
    doc.interval_column(
        "recall, %", "recall", lambda row: (row[1].recall, row[1].recall_interval), percent
    ),
    doc.interval_column(
        "precision, %",
        "precision",
        lambda row: (row[1].precision, row[1].precision_interval),
        percent,
    ),
    doc.interval_column(
        f"recall above {RANDOM}", "above_random", lambda row: _gap(row[0].above_random), points
    ),
    doc.interval_column(
        f"recall above {ENTROPY}", "above_entropy", lambda row: _gap(row[0].above_entropy), points
    ),
]


def _gap(gap: Gap | None) -> tuple[float | None, doc.Interval | None]:
    return (gap.value, gap.interval) if gap else (None, None)


def forks(comparison: Comparison, looks: Looks) -> list[doc.Block]:
    compared = comparison.forks
    if not compared:
        absent = "The task does not say where its true forks are, so none are compared."
        return [doc.Text(absent, "absent")]
    equal = {each.method: (each, each.equal) for each in compared if each.equal}
    methods = {each.label: each.method for each in comparison.variants}
    at = _shares(equal, looks, methods)
    batch = compared[0]
    caption = (
        "True forks, the tokens at which the task's solutions part: recall is how many of them a "
        "method keeps, precision how many of its kept tokens are forks. The diamond sets every "
        f"method that has a share to {at}, so that they can be compared directly. From the same "
        "rollouts of the model before training for every method, one batch of one seed: "
        f"{batch.problems:,} problems, {batch.tokens:,} tokens, {batch.forks:,} of them forks."
    )
    panels = [figures.forks("recall", compared, looks), figures.forks("precision", compared, looks)]
    own = (
        "Recall and precision of the true forks at each method's own share, and of one draw of as "
        "many random tokens (random): recall grows with the share."
    )
    blocks: list[doc.Block] = [
        doc.Figure("forks", caption, panels, figures.fork_keys()),
        method_table("forks", own, looks, OWN_COLUMNS, {each.method: each for each in compared}),
    ]
    if not equal:
        return blocks
    note = (
        "Below a figure stands its 95 % interval for other problems and the same model (bootstrap "
        "of whole problems, since tokens of one are alike; near 0 or 100 % at least that of a "
        "share of problems), not corrected for how many there are. "
        "Differences are in points; as many random tokens keep, on average, their share of the "
        "forks."
    )
    caption = f"The same with every method that has a share set to {at}."
    blocks.append(method_table("forks-equal", caption, looks, EQUAL_COLUMNS, equal, note))
    if sentence := _of_ict([row for label, row in equal.items() if methods[label] == "ict"], looks):
        blocks.append(doc.Text(sentence))
    return blocks


def _shares(equal: dict[str, EqualRow], looks: Looks, methods: Mapping[str, str]) -> str:
    """The share each method comes to where all are set to the same."""
    shares: dict[str, list[str]] = {}
    for method, (_, at_equal) in equal.items():
        label = looks[method].label + ", all but as many" * (methods[method] == "frequent")
        shares.setdefault(percent(at_equal.share), []).append(label)
    by_share = listed([f"{share} % ({listed(labels)})" for share, labels in shares.items()])
    if len(shares) < 2:
        return f"{by_share} of the tokens" if by_share else "an equal share"
    return f"as near to {100 * EQUAL_SHARE:g} % as its rule takes it, {by_share} of the tokens"


def _of_ict(rows: Sequence[EqualRow], looks: Looks) -> str:
    """What the equal shares say of unique tokens, in a sentence."""
    for each, equal in rows:
        gaps = [
            _gap_sentence(gap.value, *gap.interval, rival)
            for gap, rival in ((each.above_random, RANDOM), (each.above_entropy, ENTROPY))
            if gap and gap.interval
        ]
        if gaps:
            return (
                f"At {percent(equal.share)} % of the tokens {looks[each.method].label} keeps "
                f"{equal.hits:,} of {each.forks:,} forks, {percent(equal.recall)} %: "
                f"{listed(gaps)}."
            )
    return ""


def _gap_sentence(value: float, low: float, high: float, rival: str) -> str:
    side = "more" if value >= 0 else "less"
    away = "" if low > 0 or high < 0 else ", not told from 0"
    span = f"{points(low)} to {points(high)}{away}"
    return f"{percent(abs(value))} points {side} than {rival} ({span})"
