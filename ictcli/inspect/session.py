"""One call of `ictcli inspect`, from its arguments to the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ictcli.inspect.group import GroupView
from ictcli.inspect.recorded import decoder, find_recordings, read_step
from ictcli.inspect.view import StepView, select_all


@dataclass
class Session:
    """The recorded steps of one run."""

    run: Path
    methods: Sequence[str] = ()
    by: str | None = None
    model: str | None = None
    """Its tokenizer is taken in place of the run's."""

    @cached_property
    def steps(self) -> dict[int, Path]:
        return find_recordings(self.run)

    def open(self, step: int | None = None) -> StepView:
        """Return a step, by default the last. UserError for what is not there."""
        step = max(self.steps) if step is None else step
        recorded = read_step(self.run, self.steps, step)
        selected = select_all(recorded, self.methods)
        view = StepView(recorded, *selected, decoder(recorded, self.model), self.methods)
        view.shading(self.by)
        return view

    def group(self, view: StepView, prompt: int | None) -> GroupView:
        """Return a prompt's rollouts, by default those of the first with unequal rewards."""
        return view.group(view.choose_prompt(prompt), view.shading(self.by))
