"""The groups in a page: the one it opens at, the step's other prompts, and other steps, the nearest
first, while the page stays under PAGE_BYTES. Numbers have four digits, as the page shows them;
--json has them whole.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any
from unicodedata import east_asian_width

from ictcli.errors import UserError
from ictcli.inspect.group import GroupView, RolloutView
from ictcli.inspect.session import Session
from ictcli.inspect.view import StepView
from ictcli.tables.numbers import counted, listed
from ictcli.text import one_line, sign

PAGE_BYTES = 8 << 20
"""About how much data a page holds. A step of 256 rollouts of 30 tokens takes about 0.6 MB."""
DIGITS = 4
Data = dict[str, Any]


@dataclass(frozen=True)
class Held:
    """What a page holds."""

    groups: list[GroupView]
    data: Data
    """What the script paints the groups with."""
    summary: list[str]
    """Sentences on what the page holds and what was left out."""


def page_data(session: Session, view: StepView, shown: GroupView, limit: int = PAGE_BYTES) -> Held:
    """The groups of a page that opens at `shown`. Steps that cannot be read are left out."""
    steps: dict[int, list[tuple[GroupView, Data]]] = {}
    errors: list[str] = []
    room = limit
    for number in sorted(session.recordings.steps, key=lambda number: abs(number - shown.step)):
        try:
            step = view if number == shown.step else session.open(number)
        except UserError as error:
            errors.append(f"Step {number} is not in it: {one_line(error.message)}")
            continue
        around = shown.prompt if step is view else 1
        for prompt in sorted(range(1, step.prompts + 1), key=lambda prompt: abs(prompt - around)):
            group = step.group(prompt, shown.by)
            data = _group(group)
            room -= len(json.dumps(data, separators=(",", ":")))
            room -= sum(len(piece) + 7 for rollout in group.rollouts for piece in rollout.pieces)
            if room >= 0 or not steps:
                steps.setdefault(number, []).append((group, data))
            if room < 0:
                break
        if room < 0:
            break
    held = {
        number: sorted(steps[number], key=lambda pair: pair[0].prompt) for number in sorted(steps)
    }
    groups = [group for pairs in held.values() for group, _ in pairs]
    where = [*map(str, held)] if len(held) < 7 else [f"{min(held)} to {max(held)}"]
    content = f"{counted(len(groups), 'prompt')} of step{'s' * (len(held) > 1)} {listed(where)}"
    more = "More would make it too large: --step and --prompt write pages of others."
    return Held(
        groups,
        {
            "start": {"step": shown.step, "prompt": shown.prompt},
            **{key: getattr(shown, key) for key in ("by", "shown", "at", "candidates")},
            "steps": [_about(pairs) for pairs in held.values()],
        },
        [f"This page holds {content}.", *[more] * (room < 0), *errors],
    )


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
    """A token as the page writes it: `sign`, but spaces stay spaces."""
    return piece if piece and not piece.strip(" ") else sign(piece)


def widths(group: GroupView) -> list[int]:
    """The widest token of a group at each position, in characters of a monospaced font, so that a
    wide page can set tokens of one position below one another."""
    pieces = [[page_token(piece) for piece in rollout.pieces] for rollout in group.rollouts]
    return [max(map(_width, at)) for at in zip_longest(*pieces, fillvalue="")]


def _width(text: str) -> int:
    return sum(1 + (east_asian_width(character) in "WF") for character in text)


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
    """One number if all kept tokens have that weight and the others none, else all weights."""
    inside = {value for value, keep in zip(values, kept, strict=True) if keep}
    outside = {value for value, keep in zip(values, kept, strict=True) if not keep}
    if len(inside) <= 1 and outside <= {0.0}:
        return _short(list(inside))[0] if inside else 0
    return _short(values)


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [v if v is None else float(f"{v:.{DIGITS}g}") if v % 1 else int(v) for v in values]
