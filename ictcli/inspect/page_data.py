"""The groups in a page: the one it opens at, the step's other prompts, and other steps.

After the shown step come whole steps, nearest first, while the page stays under PAGE_BYTES. A step
too large for that alone gives the prompts nearest to the shown one. Numbers have four digits, as
the page shows them; --json has them whole.
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


@dataclass(frozen=True)
class _Step:
    groups: list[GroupView]
    data: list[Data]
    bytes: int

    @property
    def number(self) -> int:
        return self.groups[0].step

    @property
    def whole(self) -> bool:
        return len(self.groups) == self.groups[0].prompts


def page_data(session: Session, view: StepView, shown: GroupView, limit: int = PAGE_BYTES) -> Held:
    """The groups of a page that opens at `shown`. Steps that cannot be read are left out."""
    first = _step(view, shown, limit, around=shown.prompt)
    steps, room = [first], limit - first.bytes
    too_large: list[int] = []
    errors: dict[int, str] = {}
    nearest = sorted(session.recordings.steps, key=lambda number: abs(number - shown.step))
    for number in nearest[1:]:
        if too_large or not first.whole or room < first.bytes:
            too_large.append(number)
            continue
        try:
            step = _step(session.open(number), shown, room, around=1)
        except UserError as error:
            errors[number] = error.message
            continue
        if step.whole:
            steps.append(step)
            room -= step.bytes
        else:
            too_large.append(number)
    steps.sort(key=lambda step: step.number)
    return Held(
        [group for step in steps for group in step.groups],
        {
            "start": {"step": shown.step, "prompt": shown.prompt},
            **{key: getattr(shown, key) for key in ("by", "shown", "at", "candidates")},
            "steps": [_about(step) for step in steps],
        },
        _sentences(steps, sorted(too_large), errors),
    )


def _step(view: StepView, shown: GroupView, room: int, *, around: int) -> _Step:
    """A step's groups that fit into `room` bytes, at least one; those nearest to prompt `around`
    come first."""
    held: list[tuple[GroupView, Data]] = []
    size = 0
    for prompt in sorted(range(1, view.prompts + 1), key=lambda number: abs(number - around)):
        group = view.group(prompt, shown.by)
        data = _group(group)
        size += len(json.dumps(data, separators=(",", ":")))
        size += sum(len(piece) + 7 for rollout in group.rollouts for piece in rollout.pieces)
        if held and size > room:
            break
        held.append((group, data))
    held.sort(key=lambda pair: pair[0].prompt)
    return _Step([group for group, _ in held], [data for _, data in held], size)


def _about(step: _Step) -> Data:
    group = step.groups[0]
    methods = [{"name": m.name, "weight_top": m.weight_top} for m in group.methods]
    return {"step": step.number, "tops": group.tops, "methods": methods, "groups": step.data}


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


def _sentences(
    steps: Sequence[_Step], too_large: Sequence[int], errors: dict[int, str]
) -> list[str]:
    cut = next((step for step in steps if not step.whole), None)
    if cut:
        numbers = [group.prompt for group in cut.groups]
        part = f"prompts {numbers[0]} to {numbers[-1]}" if numbers[1:] else f"prompt {numbers[0]}"
        content = f"{part} of {cut.groups[0].prompts} of step {cut.number}"
    else:
        prompts = steps[0].groups[0].prompts
        part = f"all {prompts} prompts" if prompts > 1 else "the one prompt"
        content = f"{part} of {_name_steps([step.number for step in steps])}"
    sentences = [f"This page holds {content}."]
    if too_large or cut:
        also = ""
        if too_large:
            also = f"{_name_steps(too_large).capitalize()} would make it too large. "
        options = " and ".join(["--step"] * bool(too_large) + ["--prompt"] * bool(cut))
        sentences.append(f"{also}Another {options} writes a page of those.")
    return sentences + [
        f"Step {number} is not in it: {one_line(errors[number])}" for number in sorted(errors)
    ]


def _name_steps(steps: Sequence[int]) -> str:
    """`step 5`, `steps 5, 10 and 15`; of many the first and the last."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) > 6:
        return f"{len(steps)} steps from {steps[0]} to {steps[-1]}"
    return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"
