"""Which tokens are chosen and where the gradient goes, as tables."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from ictcli.algorithm.attribution import KINDS
from ictcli.compare.comparison import Comparison, Probe, TrainedTokens
from ictcli.compare.gradients import Attribution, LostUniqueness
from ictcli.compare.report.drawing import Styles
from ictcli.compare.report.tables import method_column, method_table
from ictcli.compare.shared_rollouts import ForkComparison, Places, UniquenessCurve
from ictcli.tables import Cell, Column, Span, Table
from ictcli.tables.numbers import MINUS, hundredths, percent, points, thousandths, whole

PlaceRow = tuple[Places, TrainedTokens]


def places(comparison: Comparison, styles: Styles) -> Table:
    known = {label: each for label, each in comparison.places.items() if each.tokens}
    rows = {label: (each, comparison.training[label]) for label, each in known.items()}

    def ratio(row: PlaceRow) -> Span | None:
        """Kept tokens of high entropy for each of low entropy, and the range over seeds."""
        seeds = [each for each in row[1].high_low_per_seed if each is not None]
        middle = row[1].high_low_ratio
        return None if middle is None else Span(middle, min(seeds), max(seeds))

    def regimes(row: PlaceRow) -> float | None:
        return row[0].regime_high / row[0].regime_low if row[0].regime_low else None

    def first_tenth(row: PlaceRow) -> float:
        return sum(row[0].position[: len(row[0].position) // 10 or 1])

    def top_tenth(row: PlaceRow) -> float:
        return sum(row[0].entropy[-(len(row[0].entropy) // 10 or 1) :])

    columns: list[Column[PlaceRow]] = [
        Column("tokens kept", lambda row: row[0].tokens, whole, name="tokens"),
        Column("R_H, %", lambda row: row[0].regime_high, percent, name="regime_high"),
        Column("R_L, %", lambda row: row[0].regime_low, percent, name="regime_low"),
        Column("R_H : R_L", regimes, name="regime_high / regime_low"),
        Column("p > 0.99, %", lambda row: row[0].sure, percent, name="sure"),
        Column("high : low entropy", ratio, name="high : low", bounded=True),
        Column("first tenth, %", first_tenth, percent, name="position first tenth"),
        Column("top tenth of entropy, %", top_tenth, percent, name="entropy top tenth"),
    ]
    return method_table(styles, rows, columns, name="places")


def overlap(comparison: Comparison, styles: Styles) -> Table:
    """Jaccard's index of each two variants' choices, shaded."""
    labels = comparison.overlap.labels
    rows = dict(zip(labels, comparison.overlap.jaccard, strict=True))

    def column(place: int, label: str) -> Column[str]:
        def cell(row: str) -> Cell:
            value = rows[row][place]
            return Cell(hundredths(value), (value,), shade=value)

        return Column(styles[label].label, cell)

    columns = [column(place, label) for place, label in enumerate(labels)]
    return Table([method_column(styles), *columns], labels, "overlap")


def uniqueness(comparison: Comparison) -> Table:
    columns = [
        Column[UniquenessCurve]("tokens with u = 0, %", lambda c: c.zero, percent, name="zero"),
        Column[UniquenessCurve]("highest u", lambda c: c.value[0], name="highest"),
    ]
    return Table(columns, [comparison.uniqueness], "uniqueness")


def probe(probes: Mapping[str, Probe], styles: Styles) -> Table:
    columns: list[Column[Probe]] = [
        Column("runs", lambda each: each.runs, whole),
        Column("probed steps", lambda each: len(each.step), whole),
        Column("mean r", lambda each: fmean(each.pearson), thousandths, name="mean pearson"),
        Column("lowest r", lambda each: min(each.pearson_low), thousandths, name="lowest pearson"),
        Column("mean error", lambda each: fmean(each.error)),
        Column("highest error", lambda each: max(each.error_high)),
    ]
    return method_table(styles, probes, columns, name="probe")


def forks(comparison: Comparison, styles: Styles) -> Table:
    """Of the methods at their own shares."""
    columns: list[Column[ForkComparison]] = [
        Column("kept", lambda row: row.own.kept, whole),
        Column("forks kept", lambda row: row.own.hits, whole, name="hits"),
        Column("share, %", lambda row: row.own.share, percent, name="own share"),
        Column("recall, %", lambda row: row.own.recall, percent, name="own recall"),
        Column("precision, %", lambda row: row.own.precision, percent, name="own precision"),
        Column("random: recall, %", lambda row: row.random_at_own.recall, percent),
        Column("random: precision, %", lambda row: row.random_at_own.precision, percent),
    ]
    caption = (
        "Recall and precision of the true forks at each method's own share, and of one draw of as "
        "many random tokens (random): recall grows with the share."
    )
    rows = {each.method: each for each in comparison.forks}
    return method_table(styles, rows, columns, name="forks", caption=caption)


def kinds_of(found: Mapping[str, Attribution]) -> list[str]:
    """The kinds of tokens that the gradient is shared out over."""
    known = {share.kind for each in found.values() for share in each.shares}
    return [kind for kind in KINDS if kind in known]


def gradient(found: Mapping[str, Attribution], styles: Styles) -> Table:
    """Shares of the gradient by kind and sign."""

    def share(kind: str, raised: bool) -> Column[Attribution]:
        def value(row: Attribution) -> Span | None:
            each = row.share(kind, raised=raised)
            return each and each.share

        name = f"{kind} {'+' if raised else MINUS}"
        return Column(f"{name}, %", value, percent, name=name, bounded=True)

    def within_reach(row: Attribution) -> float:
        return sum(each.share.value for each in row.shares if each.regime == "before")

    columns: list[Column[Attribution]] = [
        Column("runs", lambda row: row.runs, whole),
        *(share(kind, raised) for kind in kinds_of(found) for raised in (True, False)),
    ]
    if any(each.towards_right for each in found.values()):
        when = "Before it is lost: on tokens while the right answer is within reach."
        net = "Towards right: the net share that favours right choices."
        right = Column[Attribution]("towards right", lambda row: row.towards_right, points, net)
        right = replace(right, name="towards_right", bounded=True)
        columns += [
            Column("before it is lost, %", within_reach, percent, when, "before lost"),
            right,
        ]
    caption = f"Shares of the gradient, on tokens made likelier + and less likely {MINUS}."
    about = "95 % intervals are over seeds. Shares of a method add up to 100 %."
    return method_table(styles, found, columns, name="gradient", caption=caption, about=about)


def lost(found: Mapping[str, Attribution], styles: Styles) -> Table:
    losses = {label: each.uniqueness for label, each in found.items() if each.uniqueness}
    columns: list[Column[LostUniqueness]] = [
        Column("u before", lambda row: row.before, thousandths, name="before", bounded=True),
        Column("u after", lambda row: row.after, thousandths, name="after", bounded=True),
        Column("rise", lambda row: row.rise, thousandths, name="rise", bounded=True),
    ]
    return method_table(styles, losses, columns, name="lost")
