"""The groups in a page: the one it opens at, the step's other prompts, and other steps.

After the shown step come whole steps, nearest first, while the page stays under PAGE_BYTES. A step
too large for that alone gives the prompts nearest to the shown one. Numbers have four digits, as
the page shows them; --json has them whole.
"""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any
from unicodedata import east_asian_width

from ictcli.errors import UserError
from ictcli.inspect.session import Session
from ictcli.inspect.view import View, gradient_text, group_data
from ictcli.text import BREAKS, SPACES, one_line, sign, visible

PAGE_BYTES = 8 << 20
"""About how much data a page holds. A step of 256 rollouts of 30 tokens takes about 0.45 MB."""
DIGITS = 4
Data = dict[str, Any]


def page_data(session: Session, view: View, data: Data, limit: int = PAGE_BYTES) -> Data:
    """The groups of a page that opens at `data` (of `Session.data`), by step and prompt.

    `summary` are sentences on what the page holds and what was left out. Steps that cannot be read
    are left out.
    """
    first = _step(view, data["by"], limit, around=data["prompt"] - 1)
    steps, room = [first], limit - first["bytes"]
    too_large: list[int] = []
    errors: dict[int, str] = {}
    nearest = sorted(session.recordings.steps, key=lambda number: abs(number - data["step"]))
    for number in nearest[1:]:
        if too_large or not _is_whole(first) or room < first["bytes"]:
            too_large.append(number)
            continue
        try:
            other, _ = session.open(number, None)
        except UserError as error:
            errors[number] = error.message
            continue
        step = _step(other, data["by"], room, around=0)
        if _is_whole(step):
            steps.append(step)
            room -= step["bytes"]
        else:
            too_large.append(number)
    steps.sort(key=lambda step: step["step"])
    return {
        "start": {"step": data["step"], "prompt": data["prompt"]},
        **{key: data[key] for key in ("by", "shown", "at", "candidates")},
        "steps": steps,
        "summary": _sentences(steps, sorted(too_large), errors),
    }


def _step(view: View, by: str, room: int, *, around: int) -> Data:
    """A step's groups that fit into `room` bytes, at least one; those nearest to prompt `around`
    (from 0) come first."""
    groups: dict[int, Data] = {}
    size = 0
    about: Data = {}
    for prompt in sorted(range(view.prompts), key=lambda number: abs(number - around)):
        data = group_data(view, prompt, by)
        about = about or data
        group = {
            "prompt": data["prompt"],
            "question": visible(data["problem"]["prompt"], SPACES + BREAKS),
            "gold": one_line(data["problem"]["gold"]),
            "widths": widths(data["rollouts"]),
            "rollouts": [_rollout(rollout) for rollout in data["rollouts"]],
        }
        size += len(json.dumps(group, separators=(",", ":")))
        if groups and size > room:
            break
        groups[prompt] = group
    return {
        **{key: about[key] for key in ("step", "prompts", "tops")},
        "methods": [
            {k: v for k, v in method.items() if k != "kept"}
            | {"gradient": gradient_text(method["gradient"])}
            for method in about["methods"]
        ],
        "missing": [one_line(missing["sentence"]) for missing in about["missing"]],
        "notes": [one_line(note) for note in about["notes"]],
        "groups": [groups[prompt] for prompt in sorted(groups)],
        "bytes": size,
    }


def _is_whole(step: Data) -> bool:
    return len(step["groups"]) == step["prompts"]


def page_token(piece: str) -> str:
    """A token as the page writes it: `sign`, but spaces stay spaces."""
    return piece if piece and not piece.strip(" ") else sign(piece)


def widths(rollouts: Sequence[Data]) -> list[int]:
    """The widest token of a group at each position, in characters of a monospaced font, so that a
    wide page can set tokens of one position below one another."""
    pieces = [[page_token(piece) for piece in rollout["pieces"]] for rollout in rollouts]
    return [max(map(_width, at)) for at in zip_longest(*pieces, fillvalue="")]


def _width(text: str) -> int:
    return sum(1 + (east_asian_width(character) in "WF") for character in text)


def _rollout(rollout: Data) -> Data:
    kept, weights = rollout["kept"], rollout["weights"]
    unchanged = ("row", "verdict", "reward", "advantage", "finished", "tokens")
    return {
        **{key: rollout[key] for key in unchanged},
        "extracted": one_line(rollout["extracted"]),
        "reason": one_line(rollout["reason"]),
        "pieces": [page_token(piece) for piece in rollout["pieces"]],
        "stats": {name: _short(values) for name, values in rollout["stats"].items()},
        "regime": "".join({"R_H": "H", "R_L": "L", None: "-"}[r] for r in rollout["regime"]),
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
    steps: Sequence[Data], too_large: Sequence[int], errors: dict[int, str]
) -> list[str]:
    cut = next((step for step in steps if not _is_whole(step)), None)
    if cut:
        numbers = [group["prompt"] for group in cut["groups"]]
        part = f"prompts {numbers[0]} to {numbers[-1]}" if numbers[1:] else f"prompt {numbers[0]}"
        content = f"{part} of {cut['prompts']} of step {cut['step']}"
    else:
        prompts = steps[0]["prompts"]
        part = f"all {prompts} prompts" if prompts > 1 else "the one prompt"
        content = f"{part} of {_name_steps([step['step'] for step in steps])}"
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
