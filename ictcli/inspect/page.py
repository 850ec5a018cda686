"""Recorded groups as one self-contained HTML file; model text is escaped.

The first group is shown without scripts: its tokens are in the HTML, shaded and marked. Every group
is in a template element; `page.js` inserts the chosen one, colours it, and shows details of the
token under the pointer. Numbers are rounded to four digits; --json has them in full."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat, zip_longest
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup

from ictcli.errors import UserError
from ictcli.inspect.group import GroupView, RolloutView
from ictcli.inspect.view import SHADINGS, StepView
from ictcli.tables.numbers import counted, listed
from ictcli.tables.pages import render
from ictcli.text import html_text, one_line, sign

MARK = '<meta name="generator" content="ictcli inspect">'
HEAD_BYTES = 1024
PAGE_BYTES = 8 << 20
"""Approximate limit of the data in a page. 256 rollouts of 30 tokens take about 0.6 MB."""
DIGITS = 4
Data = dict[str, Any]


def check_target(path: Path) -> None:
    """Raise UserError if `path` does not end in .html, or exists and is not a page of `ictcli
    inspect`, which would be overwritten."""
    why = ""
    if path.suffix.lower() not in (".html", ".htm"):
        why = "does not end in .html"
    elif path.exists() and not path.is_file():
        why = "is not a regular file"
    elif path.exists() and MARK.encode() not in path.open("rb").read(HEAD_BYTES):
        why = "already exists and was not written by ictcli inspect"
    if why:
        raise UserError(f"{path} {why}.", "--html group.html")


@dataclass(frozen=True)
class Held:
    groups: list[GroupView]
    data: Data
    """The values of the groups, which `page.js` reads."""
    summary: list[str]
    """Sentences on what the page contains and what was left out."""


def page(group: GroupView, held: Held) -> str:
    """Return the HTML of a page that first shows `group`, and can switch to groups in `held`."""
    tops = (*group.tops, "weight")
    shadings = {name: title for name, title in SHADINGS.items() if name in tops}
    data = json.dumps(
        {**held.data, "titles": shadings}, allow_nan=False, separators=(",", ":")
    ).translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"})  # safe inside HTML
    return render(
        Path(__file__).with_name("page.html"),
        "html",
        group=group,
        held=held.groups,
        about=held.summary,
        titles=shadings,
        mark=Markup(MARK),
        tokens=_tokens,
        data=Markup(data),
    )


def _tokens(group: GroupView, rollout: RolloutView, painted: bool) -> Markup:
    """Return the tokens of a rollout as HTML elements, and a line break after each newline. If
    `painted`, they are shaded and marked as when the page opens."""
    top = group.top(group.by, group.shown)
    values, kept = rollout.values(group.by, group.shown), rollout.kept[group.shown]
    wide = widths(group) if painted else repeat(0)
    parts: list[str] = []
    for piece, value, keep, width in zip(rollout.pieces, values, kept, wide, strict=False):
        mark = " class=k" * keep
        style = f'{mark} style="--a:{min(1.0, value / top):.3f};--w:{width}"' * painted
        broken = "<br>" * piece.endswith("\n")
        parts.append(f"<i{style}>{html_text(page_token(piece))}</i>{broken}")
    return Markup("".join(parts))


def page_data(view: StepView, shown: GroupView, limit: int = PAGE_BYTES) -> Held:
    """Return the groups for a page that opens at `shown`: the nearest groups, with `limit` bytes of
    data in all. Steps that cannot be read are left out."""
    pairs: dict[tuple[int, int], tuple[GroupView, Data]] = {}
    errors: list[str] = []
    room = limit
    for group in _nearest(view, shown, errors):
        data = _group(group)
        room -= len(json.dumps(data, separators=(",", ":")))
        room -= sum(len(piece) + 7 for rollout in group.rollouts for piece in rollout.pieces)
        if room < 0 and pairs:
            break
        pairs[group.step, group.prompt] = group, data
    ordered = [pairs[place] for place in sorted(pairs)]
    steps = [list(step) for _, step in groupby(ordered, key=lambda pair: pair[0].step)]
    numbers = [step[0][0].step for step in steps]
    where = [*map(str, numbers)] if len(steps) < 7 else [f"{min(numbers)} to {max(numbers)}"]
    prompts = sum(step[0][0].prompts for step in steps)
    part = f"{len(pairs)} of " if len(pairs) < prompts else ""
    content = f"{part}{counted(prompts, 'prompt')} of step{'s' * (len(steps) > 1)} {listed(where)}"
    more = "Other groups would make it too large; see them with --step and --prompt."
    return Held(
        [group for group, _ in ordered],
        {
            "start": {"step": shown.step, "prompt": shown.prompt},
            **{key: getattr(shown, key) for key in ("by", "shown")},
            "steps": [_about(step) for step in steps],
        },
        [f"This page holds {content}.", *[more] * (room < 0), *errors],
    )


def _nearest(view: StepView, shown: GroupView, errors: list[str]) -> Iterator[GroupView]:
    """Yield the run's groups, nearest to `shown` first; add to `errors` for unreadable steps."""
    for number in sorted(shown.steps, key=lambda number: abs(number - shown.step)):
        try:
            step = view if number == shown.step else view.step(number)
        except UserError as error:
            errors.append(f"Step {number} is left out: {one_line(error.message)}")
            continue
        middle = shown.prompt if step is view else 1
        for prompt in sorted(range(1, step.prompts + 1), key=lambda prompt: abs(prompt - middle)):
            yield step.group(prompt, shown.by)


def _about(pairs: Sequence[tuple[GroupView, Data]]) -> Data:
    group, _ = pairs[0]
    methods = [{"name": m.name, "weight_top": m.weight_top} for m in group.methods]
    groups = [data for _, data in pairs]
    return {"step": group.step, "tops": group.tops, "methods": methods, "groups": groups}


def _group(group: GroupView) -> Data:
    right = sum(rollout.verdict == "correct" for rollout in group.rollouts)
    return {
        "prompt": group.prompt,
        "label": f"{group.prompt}: {right} of {len(group.rollouts)} right",
        "widths": widths(group),
        "rollouts": [_rollout(rollout) for rollout in group.rollouts],
    }


def page_token(piece: str) -> str:
    """Return a token's text for the page, with visible signs for newlines and the like (`sign`)."""
    return piece if piece and not piece.strip(" ") else sign(piece)


def widths(group: GroupView) -> list[int]:
    """Return the width of a group's widest token at each position, in characters of a monospaced
    font, for a wide page to align the tokens of one position."""
    pieces = [[page_token(piece) for piece in rollout.pieces] for rollout in group.rollouts]
    return [
        max(sum(1 + (east_asian_width(character) in "WF") for character in text) for text in at)
        for at in zip_longest(*pieces, fillvalue="")
    ]


def _rollout(rollout: RolloutView) -> Data:
    kept, weights = rollout.kept, rollout.weights
    return {
        "row": rollout.row,
        "tokens": rollout.tokens,
        "stats": {name: _short(values) for name, values in rollout.stats.items()},
        "regime": "".join((regime or "R_-")[2] for regime in rollout.regime),
        "kept": {name: "".join("01"[k] for k in marks) for name, marks in kept.items()},
        "weights": {name: _weights(weights[name], kept[name]) for name in kept},
    }


def _weights(values: Sequence[float | None], kept: Sequence[bool]) -> float | list[Any] | None:
    """Return the weight of the kept tokens if all have the same, and others 0; else all weights."""
    inside = {value for value, keep in zip(values, kept, strict=True) if keep}
    outside = {value for value, keep in zip(values, kept, strict=True) if not keep}
    if len(inside) <= 1 and outside <= {0.0}:
        return _short(list(inside))[0] if inside else 0
    return _short(values)


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [v if v is None else float(f"{v:.{DIGITS}g}") if v % 1 else int(v) for v in values]
