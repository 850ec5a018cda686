"""True forks: how many of them each method keeps of the same rollouts, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ictcli.compare.forks import EQUAL_SHARE
from ictcli.compare.report import mechanism as drawn
from ictcli.compare.report.document import (
    Block,
    Column,
    Figure,
    Table,
    Text,
    mapping,
    text_column,
)
from ictcli.compare.report.numbers import Cell, interval, listed, number, of, percent, points
from ictcli.compare.report.palette import Looks, variant

Result = dict[str, Any]
PARTS = ("share", "recall", "precision")
RIVALS = {"above_random": "as many random tokens", "above_entropy": "as many of highest entropy"}


def forks(result: Result, looks: Looks) -> list[Block]:
    found: Any = result["forks"]
    if not found:
        return [
            Text("The task does not say where its true forks are, so none are compared.", "absent")
        ]
    at = _shares(found, looks)
    batch = _batch(found[0])
    caption = (
        "True forks, the tokens at which the task's solutions part: recall is how many of them a "
        "method keeps, precision how many of its kept tokens are forks. The diamond sets every "
        f"method to {at}, so that ict, random tokens and the highest entropy can be compared "
        f"directly. {batch} Methods without a share to set have no diamond."
    )
    panels = [drawn.forks(which, found, looks) for which in ("recall", "precision")]
    return [
        Figure("forks", caption, panels, drawn.fork_keys()),
        _own(found, looks, batch),
        *_equal(found, looks, at, batch),
    ]


def _shares(found: Sequence[dict[str, Any]], looks: Looks) -> str:
    """The share each method comes to where all are set to the same."""
    shares: dict[str, list[str]] = {}
    for one in found:
        if one["equal"]:
            label = looks[one["method"]].label
            label += ", all but as many" * (one["method"].split(" ")[0] == "frequent")
            shares.setdefault(percent(one["equal"]["share"]), []).append(label)
    told = listed([f"{share} % ({listed(labels)})" for share, labels in shares.items()])
    if len(shares) < 2:
        return f"{told} of the tokens" if told else "an equal share"
    return f"as near to {100 * EQUAL_SHARE:g} % as its rule takes it, {told} of the tokens"


def _batch(one: dict[str, Any]) -> str:
    """What the figures are from, and how much it is."""
    told = "From the same rollouts of the model before training for every method, one batch of one"
    if one.get("forks") is None:
        return f"{told} seed."
    return (
        f"{told} seed: {one['problems']:,} problems, {one['tokens']:,} tokens, "
        f"{one['forks']:,} of them forks."
    )


def _own(found: Sequence[dict[str, Any]], looks: Looks, batch: str) -> Table:
    counted = all("hits" in one["own"] for one in found)
    columns = [text_column("method")]
    columns += [Column("kept", ("kept",)), Column("forks kept", ("hits",))] if counted else []
    columns += [Column(f"{part}, %", (f"own {part}",)) for part in PARTS]
    columns += [
        Column(f"random: {part}, %", (f"random_at_own {part}",)) for part in ("recall", "precision")
    ]
    rows: list[list[Cell]] = [
        [
            variant(looks[one["method"]]),
            *([number(one["own"][name]) for name in ("kept", "hits")] if counted else []),
            *(of(one["own"][part], percent) for part in PARTS),
            *(of(one["random_at_own"][part], percent) for part in ("recall", "precision")),
        ]
        for one in found
    ]
    told = (
        "Recall and precision of the true forks at each method's own share, and of one draw of as "
        f"many random tokens (random): recall grows with the share. {batch}"
    )
    return Table("forks", told, columns, rows)


def _equal(
    found: Sequence[dict[str, Any]], looks: Looks, at: str, batch: str
) -> list[Table | Text]:
    mine = [one for one in found if one["equal"]]
    if not mine:
        return []
    counted = all("hits" in one["equal"] for one in mine)
    columns = [text_column("method")]
    columns += [Column("kept", ("kept",)), Column("forks kept", ("hits",))] if counted else []
    columns += [
        Column("share, %", ("share",)),
        Column("recall, %", ("recall", "recall low", "recall high")),
        Column("precision, %", ("precision", "precision low", "precision high")),
    ]
    gaps = {name: text for name, text in RIVALS.items() if any(one.get(name) for one in mine)}
    columns += [
        Column(f"recall above {text}", (name, f"{name} low", f"{name} high"))
        for name, text in gaps.items()
    ]
    rows: list[list[Cell]] = []
    for one in mine:
        equal = one["equal"]
        rows.append(
            [
                variant(looks[one["method"]]),
                *([number(equal[name]) for name in ("kept", "hits")] if counted else []),
                of(equal["share"], percent),
                _bounded(equal["recall"], equal.get("recall_interval"), percent),
                _bounded(equal["precision"], equal.get("precision_interval"), percent),
                *(_gap(mapping(one.get(name))) for name in gaps),
            ]
        )
    told = f"The same with every method that has a share set to {at}. {batch}"
    note = (
        "Below a figure stands its 95 % interval over the batch's problems (bootstrap of whole "
        "problems, since tokens of one are alike): how it would be with other problems and the "
        "same model. It says nothing of other seeds or of later training, and is not corrected "
        "for how many there are. Differences are in points; as many random tokens keep, on "
        "average, their share of the forks."
    )
    table = Table("forks-equal", told, columns, rows, note if gaps else "")
    return [table, *([Text(sentence)] if (sentence := _told(mine, looks)) else [])]


def _bounded(value: float | None, bounds: Any, form: Any) -> Cell:
    low, high = bounds or (None, None)
    under = interval(low, high, form).text if low is not None and low != high else ""
    return replace(of(value, form), values=(value, low, high), under=under)


def _gap(gap: dict[str, Any]) -> Cell:
    return _bounded(gap.get("value"), gap.get("interval"), points)


def _told(found: Sequence[dict[str, Any]], looks: Looks) -> str:
    """What the equal shares say of unique tokens, in a sentence."""
    for one in found:
        told: list[str] = []
        for name, text in RIVALS.items():
            gap = mapping(one.get(name))
            bounds = gap.get("interval")
            if bounds is None:
                continue
            low, high = bounds
            side = "more" if gap["value"] >= 0 else "less"
            away = "" if low > 0 or high < 0 else ", not told from 0"
            told.append(
                f"{percent(abs(gap['value']))} points {side} than {text} "
                f"({points(low)} to {points(high)}{away})"
            )
        if one["method"].split(" ")[0] == "ict" and told:
            equal = one["equal"]
            return (
                f"At {percent(equal['share'])} % of the tokens {looks[one['method']].label} keeps "
                f"{equal['hits']:,} of {one['forks']:,} forks, {percent(equal['recall'])} %: "
                f"{listed(told)}."
            )
    return ""
