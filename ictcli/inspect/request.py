"""What one call of `ictcli inspect` looks at, from its arguments to the data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ictcli.errors import UserError
from ictcli.inspect.candidates import Model
from ictcli.inspect.pieces import decoder
from ictcli.inspect.record import chosen_step, find, read
from ictcli.inspect.view import View, as_data, chosen_prompt, open_view, shading


class Session:
    """The recorded steps of one place; holds the model of the step that was asked about last."""

    def __init__(
        self,
        source: Path,
        methods: Sequence[str] = (),
        by: str | None = None,
        model: str | None = None,
        backend: str | None = None,
    ) -> None:
        self.source = source
        self.place = find(source)
        self.by = by
        self._methods = methods
        self._given = model
        self._backend = backend
        self._model: tuple[int, Model] | None = None

    def open(self, step: int | None, prompt: int | None) -> tuple[View, int]:
        """A step and a prompt of it, from 1 as users count; gives the prompt from 0. UserError for
        what is not there."""
        recorded = read(self.place, chosen_step(self.place, self.source, step))
        view = open_view(recorded, self._methods, decoder(recorded, self._given))
        shading(view, self.by)
        return view, chosen_prompt(view, prompt)

    def model(self, view: View) -> Model:
        """The model that says what a step's tokens could have been; not loaded yet."""
        step = view.recorded.step
        if self._model is None or self._model[0] != step:
            self._model = None  # two may not fit
            self._model = step, Model(view.recorded, view.decode, self._given, self._backend)
        return self._model[1]

    def data(self, view: View, prompt: int, asked: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """`as_data`, with the candidates at the (row, position) asked for, from 0."""
        data = as_data(view, prompt, shading(view, self.by))
        data["tokenizer"] = view.decode is not None
        data["at"] = [[row + 1, t + 1] for row, t in asked]
        data["candidates"] = None
        if asked:
            model = self.model(view)
            found = model.at(prompt, sorted({t for _, t in asked}))
            weights = model.load()
            data["candidates"] = {
                "weights": weights.sentence,
                "kind": weights.kind,
                "after_step": weights.after,
                "exact": weights.exact,
                "positions": found,
            }
        return data


def places(view: View, prompt: int, at: Sequence[str]) -> list[tuple[int, int]]:
    """(row, position) from 0 of each `ROW:POSITION`; `all` is every one. UserError for one outside
    the group."""
    lengths = [int(view.recorded.batch.rollouts.lengths[row]) for row in view.rows(prompt)]
    found: list[tuple[int, int]] = []
    for text in at:
        if text == "all":
            found += [(row, t) for row, length in enumerate(lengths) for t in range(length)]
            continue
        match = re.fullmatch(r"(\d+):(\d+)", text)
        if not match:
            raise UserError(f"--at {text} is not ROW:POSITION.", "for example --at 2:17")
        row, t = int(match[1]) - 1, int(match[2]) - 1
        if not 0 <= row < len(lengths):
            raise UserError(
                f"There is no row {match[1]}: the group has {len(lengths)} rollouts.",
                f"--at takes rows 1 to {len(lengths)}",
            )
        if not 0 <= t < lengths[row]:
            raise UserError(
                f"Rollout {match[1]} has {lengths[row]} tokens, and none at {match[2]}.",
                f"--at {match[1]}:{lengths[row]} is its last",
            )
        found.append((row, t))
    return list(dict.fromkeys(found))
