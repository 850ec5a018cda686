"""What a page holds beside the group it opens at: the step's other prompts, and other steps.

Every prompt of the shown step, then whole steps, the nearest first, as long as the page stays under
PAGE_BYTES; a step too large for that alone gives the prompts nearest to the shown one. Numbers have
four digits, which is what a page shows; `--json` has them whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ictcli.errors import UserError
from ictcli.inspect.request import Session
from ictcli.inspect.view import View, as_data
from ictcli.text import sign, visible

PAGE_BYTES = 8 << 20
"""Of data in a page, about. A step of 256 rollouts of 30 tokens takes about 0.45 MB."""
DIGITS = 4
Data = dict[str, Any]


def bundle(session: Session, view: View, data: Data, limit: int = PAGE_BYTES) -> Data:
    """The groups of a page that opens at `data` (of `Session.data`), by step and prompt.

    `told` says what is in the page and what was left out. Steps that cannot be read are left out
    with why.
    """
    first = _step(view, data["by"], limit, around=data["prompt"] - 1)
    steps = {data["step"]: first}
    room = limit - first["bytes"]
    left: dict[int, str] = {}
    nearest = sorted(session.place.steps, key=lambda number: abs(number - data["step"]))
    whole = len(first["groups"]) == first["prompts"]
    for number in nearest[1:]:
        if not whole or room < first["bytes"]:
            left[number] = ""
            continue
        try:
            other, _ = session.open(number, None)
        except UserError as error:
            left[number] = error.message
            continue
        found = _step(other, data["by"], room, around=0)
        if len(found["groups"]) < found["prompts"]:
            whole = False  # what is in, is in whole
            left[number] = ""
            continue
        room -= found["bytes"]
        steps[number] = found
    return {
        "start": {"step": data["step"], "prompt": data["prompt"]},
        "by": data["by"],
        "shown": data["shown"],
        "at": data["at"],
        "candidates": data["candidates"],
        "steps": [steps[number] for number in sorted(steps)],
        "told": _told([steps[number] for number in sorted(steps)], left),
    }


def _step(view: View, by: str, room: int, *, around: int) -> Data:
    """A step's groups, those nearest to prompt `around` (from 0) first while there is room; at
    least one."""
    groups: dict[int, Data] = {}
    size = 0
    about: Data = {}
    for prompt in sorted(range(view.prompts), key=lambda number: abs(number - around)):
        data = as_data(view, prompt, by)
        about = about or data
        group = _group(data)
        size += len(json.dumps(group, separators=(",", ":")))
        if groups and size > room:
            break
        groups[prompt] = group
    return {
        "step": about["step"],
        "prompts": about["prompts"],
        "tops": about["tops"],
        "methods": [{k: v for k, v in one.items() if k != "kept"} for one in about["methods"]],
        "missing": [one["sentence"] for one in about["missing"]],
        "notes": [visible(note) for note in about["notes"]],
        "groups": [groups[prompt] for prompt in sorted(groups)],
        "bytes": size,
    }


def _group(data: Data) -> Data:
    problem = data["problem"]
    return {
        "prompt": data["prompt"],
        "question": question(problem["prompt"]),
        "gold": visible(problem["gold"]),
        "rollouts": [_rollout(rollout) for rollout in data["rollouts"]],
    }


def question(text: str) -> str:
    """A prompt's text with its line breaks, and nothing that hides."""
    return "\n".join(visible(line) for line in text.split("\n"))


def shown(piece: str) -> str:
    """A token as the page writes it: spaces stay spaces, a line break is its sign."""
    return piece if piece and not piece.strip(" ") else sign(piece)


def _rollout(found: Data) -> Data:
    kept = {name: "".join("01"[k] for k in marks) for name, marks in found["kept"].items()}
    return {
        "row": found["row"],
        "verdict": found["verdict"],
        "extracted": visible(found["extracted"]),
        "reason": visible(found["reason"]),
        "reward": found["reward"],
        "advantage": found["advantage"],
        "finished": found["finished"],
        "tokens": found["tokens"],
        "pieces": [shown(piece) for piece in found["pieces"]],
        "stats": {name: _short(values) for name, values in found["stats"].items()},
        "regime": "".join({"R_H": "H", "R_L": "L", None: "-"}[r] for r in found["regime"]),
        "kept": kept,
        "weights": {n: _weights(found["weights"][n], found["kept"][n]) for n in kept},
    }


def _weights(values: Sequence[float | None], kept: Sequence[bool]) -> float | list[Any] | None:
    """One number where all kept tokens have that weight and the others none, else all of them."""
    inside = {value for value, keep in zip(values, kept, strict=True) if keep}
    outside = {value for value, keep in zip(values, kept, strict=True) if not keep}
    if len(inside) <= 1 and outside <= {0.0}:
        return _short(list(inside))[0] if inside else 0
    return _short(values)


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [v if v is None else float(f"{v:.{DIGITS}g}") if v % 1 else int(v) for v in values]


def _told(steps: Sequence[Data], left: dict[int, str]) -> list[str]:
    """What is in the page, and what is not."""
    cut = [one for one in steps if len(one["groups"]) < one["prompts"]]
    if cut:
        (one,) = cut
        numbers = [group["prompt"] for group in one["groups"]]
        held = f"prompts {numbers[0]} to {numbers[-1]}" if numbers[1:] else f"prompt {numbers[0]}"
        told = [f"This page holds {held} of {one['prompts']} of step {one['step']}."]
    else:
        every = steps[0]["prompts"]
        held = f"all {every} prompts" if every > 1 else "the one prompt"
        told = [f"This page holds {held} of {_numbered([one['step'] for one in steps])}."]
    large = sorted(number for number, why in left.items() if not why)
    if large or cut:
        also = f"{_numbered(large).capitalize()} would make it too large. " if large else ""
        wanted = " and ".join(["--step"] * bool(large) + ["--prompt"] * bool(cut))
        told.append(f"{also}Another {wanted} writes a page of those.")
    told += [f"Step {n} is not in it: {visible(why)}" for n, why in sorted(left.items()) if why]
    return told


def _numbered(steps: Sequence[int]) -> str:
    """`step 5`, `steps 5, 10 and 15`; of many the ends."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) > 6:
        return f"{len(steps)} steps from {steps[0]} to {steps[-1]}"
    return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"
