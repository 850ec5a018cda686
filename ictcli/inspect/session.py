"""One call of `ictcli inspect`, from its arguments to the data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ictcli.errors import UserError
from ictcli.inspect.candidates import candidates_at, nearest_model
from ictcli.inspect.group import GroupView
from ictcli.inspect.recorded import decoder, find_recordings, read_step
from ictcli.inspect.view import StepView, select_all


@dataclass
class Session:
    """The recorded steps of one run."""

    run: Path
    methods: Sequence[str] = ()
    by: str | None = None
    asked: str | None = None
    """A model that is asked in place of the run's."""
    backend: str | None = None

    @cached_property
    def steps(self) -> dict[int, Path]:
        return find_recordings(self.run)

    def open(self, step: int | None = None) -> StepView:
        """Return a step, by default the last. UserError for what is not there."""
        step = max(self.steps) if step is None else step
        recorded = read_step(self.run, self.steps, step)
        selected = select_all(recorded, self.methods)
        view = StepView(recorded, *selected, decoder(recorded, self.asked), self.methods)
        view.shading(self.by)
        return view

    def group(self, view: StepView, prompt: int | None, at: Sequence[str] = ()) -> GroupView:
        """A prompt's rollouts, by default those of the first with unequal rewards, with the model's
        candidates at the places `at`."""
        group = view.group(view.choose_prompt(prompt), view.shading(self.by))
        places = parse_places(group, at)
        if not places:
            return group
        engine, state = nearest_model(view.recorded, self.asked, self.backend)
        rollouts = view.recorded.batch.rollouts.groups(group.prompt - 1, group.prompt)
        columns = sorted({position - 1 for _, position in places})
        positions = candidates_at(engine, rollouts, columns, view.decode)
        candidates = {
            "weights": state.sentence,
            "kind": state.kind,
            "after_step": state.after,
            "exact": state.exact,
            "positions": positions,
        }
        return replace(group, at=places, candidates=candidates)


def parse_places(group: GroupView, at: Sequence[str]) -> list[tuple[int, int]]:
    """(row, position) of each `ROW:POSITION`; `all` is every token. UserError for a place outside
    the group."""
    lengths = {rollout.row: len(rollout.tokens) for rollout in group.rollouts}
    places: list[tuple[int, int]] = []
    for text in at:
        if text == "all":
            places += [(row, t) for row, n in lengths.items() for t in range(1, n + 1)]
            continue
        match = re.fullmatch(r"(\d+):(\d+)", text)
        if not match:
            raise UserError(f"--at {text} is not ROW:POSITION.", "for example --at 2:17")
        row, position = int(match[1]), int(match[2])
        if row not in lengths:
            raise UserError(
                f"There is no row {row}: the group has {len(lengths)} rollouts.",
                f"--at takes rows 1 to {len(lengths)}",
            )
        if not 1 <= position <= lengths[row]:
            raise UserError(
                f"Rollout {row} has {lengths[row]} tokens, and none at {position}.",
                f"--at {row}:{lengths[row]} is its last",
            )
        places.append((row, position))
    return list(dict.fromkeys(places))
