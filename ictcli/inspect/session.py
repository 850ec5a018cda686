"""One call of `ictcli inspect`, from its arguments to the data."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ictcli.errors import UserError
from ictcli.inspect.candidates import CandidateModel
from ictcli.inspect.recorded import choose_step, find_recordings, read_step
from ictcli.inspect.selections import select_all
from ictcli.inspect.tokenizer import decisions, decoder
from ictcli.inspect.view import View, group_data


class Session:
    """The recorded steps of one run or file; holds the model of the step last used."""

    def __init__(
        self,
        source: Path,
        methods: Sequence[str] = (),
        by: str | None = None,
        model: str | None = None,
        backend: str | None = None,
    ) -> None:
        self.source = source
        self.recordings = find_recordings(source)
        self.by = by
        self._methods = methods
        self._model_name = model
        self._backend = backend
        self._model: CandidateModel | None = None

    def open(self, step: int | None, prompt: int | None) -> tuple[View, int]:
        """A step and a prompt counted from 0, from one counted from 1. UserError for what is not
        there."""
        recorded = read_step(self.recordings, choose_step(self.recordings, self.source, step))
        decode = decoder(recorded, self._model_name)
        made = decisions(recorded, self._model_name)
        view = View(recorded, *select_all(recorded, self._methods), decode, self._methods, made)
        view.shading(self.by)
        return view, view.choose_prompt(prompt)

    def model(self, view: View) -> CandidateModel:
        """The model of a step; not loaded yet."""
        if self._model is None or self._model.recorded.step != view.recorded.step:
            self._model = None  # two may not fit in memory
            self._model = CandidateModel(
                view.recorded, view.decode, self._model_name, self._backend
            )
        return self._model

    def data(self, view: View, prompt: int, places: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """`group_data`, with the candidates at these (row, position), counted from 0."""
        data = group_data(view, prompt, view.shading(self.by))
        data["tokenizer"] = view.decode is not None
        data["at"] = [[row + 1, t + 1] for row, t in places]
        data["candidates"] = None
        if places:
            model = self.model(view)
            positions = model.at(prompt, sorted({t for _, t in places}))
            state = model.load()
            data["candidates"] = {
                "weights": state.sentence,
                "kind": state.kind,
                "after_step": state.after,
                "exact": state.exact,
                "positions": positions,
            }
        return data


def parse_places(view: View, prompt: int, at: Sequence[str]) -> list[tuple[int, int]]:
    """(row, position), counted from 0, of each `ROW:POSITION`; `all` is every token. UserError for
    a place outside the group."""
    lengths = [int(view.recorded.batch.rollouts.lengths[row]) for row in view.rows(prompt)]
    places: list[tuple[int, int]] = []
    for text in at:
        if text == "all":
            places += [(row, t) for row, length in enumerate(lengths) for t in range(length)]
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
        places.append((row, t))
    return list(dict.fromkeys(places))
