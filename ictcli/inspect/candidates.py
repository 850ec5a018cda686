"""The likeliest tokens of p and of the group's mean P_avg at a position.

Runs do not record probabilities over the vocabulary, so the model is run again: with the weights
that sampled if they are still there, else with the nearest saved ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.algorithm.dynamics import softmax
from ictcli.algorithm.quantities import STATISTICS
from ictcli.engine import Engine, build_engine
from ictcli.engine.models import exported, locate, snapshot
from ictcli.errors import UserError
from ictcli.inspect.recorded import RecordedStep
from ictcli.runs import Run
from ictcli.runs.checkpoints import DAMAGE, check, step_of
from ictcli.runs.model import engine_at, engine_of
from ictcli.runs.read import read_record
from ictcli.runs.records import Summary
from ictcli.tasks.detokenize import Decode
from ictcli.text import visible
from ictcli.types import Rollouts

TOP = 8
CHUNK_BYTES = 1 << 28


@dataclass(frozen=True)
class ModelState:
    """Saved weights of the model."""

    kind: str
    """checkpoint, final, before, or given."""
    path: str
    after: int | None
    """Steps trained; None if unknown."""
    sampled_after: int
    """Steps trained when the rollouts were sampled."""

    @property
    def exact(self) -> bool:
        return self.after == self.sampled_after

    @property
    def sentence(self) -> str:
        """Says which weights these are, and whether they sampled the step."""
        name = {
            "checkpoint": f"the checkpoint after step {self.after}",
            "final": f"the final model, after step {self.after}",
            "before": "the model before training",
            "given": f"the model {self.path}",
        }[self.kind]
        if self.exact:
            return f"By the weights that sampled this step: {name}."
        sampled = f"after step {self.sampled_after}" if self.sampled_after else "before training"
        return f"By {name}: not by the weights that sampled this step, those {sampled}."


def saved_states(recorded: RecordedStep, model: str | None = None) -> list[ModelState]:
    """`model`, or the saved states of the run's model, nearest to the sampling weights first."""
    sampled_after = recorded.step - 1
    if model is not None:
        return [ModelState("given", model, None, sampled_after)]
    run = recorded.run
    if run is None:
        return []
    states = [
        ModelState("checkpoint", str(path), step_of(path), sampled_after)
        for path in Run(run).checkpoints()
    ]
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and exported(run):
        states.append(ModelState("final", str(run), summary.steps, sampled_after))
    try:
        if recorded.recipe.model and snapshot(locate(recorded.recipe.model).path):
            states.append(ModelState("before", recorded.recipe.model, 0, sampled_after))
    except UserError:
        pass  # its folder is gone
    return sorted(states, key=lambda state: abs((state.after or 0) - sampled_after))


@dataclass
class CandidateModel:
    """The model of a recorded step; loaded on first use."""

    recorded: RecordedStep
    decode: Decode | None
    model: str | None = None
    backend: str | None = None
    _known: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict[Any, Any])

    @cached_property
    def loaded(self) -> tuple[Engine, ModelState]:
        """The nearest state that can be loaded. UserError where there is none."""
        fault: Exception | None = None
        for state in saved_states(self.recorded, self.model):
            try:
                return self._build(state), state
            except (UserError, *DAMAGE) as error:
                fault = fault or error
        if isinstance(fault, UserError):
            raise fault
        raise UserError(
            "No model is there to ask for candidates.", "--model MODEL takes a folder or a hub id"
        ) from fault

    def _build(self, state: ModelState) -> Engine:
        recipe = self.recorded.recipe
        if self.backend:
            recipe = recipe.with_engine(backend=self.backend)
        run, path = self.recorded.run, Path(state.path)
        if run is not None and state.kind == "checkpoint":
            check(path)
            return engine_at(run, recipe.model_dump(), path, recipe.engine)
        if state.kind == "final":
            return engine_of(path, recipe.engine)
        return build_engine(state.path, recipe.engine)

    def at(self, prompt: int, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The candidates at positions of a prompt's group, both counted from 0; see `_position`."""
        engine, _ = self.loaded
        self.decode = self.decode or engine.tokenizer.decode
        unknown = [t for t in positions if (prompt, t) not in self._known]
        group = self.recorded.batch.rollouts.groups(prompt, prompt + 1)
        row_bytes = 8 * len(group) * int(engine.describe().get("vocabulary", 1 << 17))
        size = max(1, CHUNK_BYTES // row_bytes)
        for first in range(0, len(unknown), size):
            part = sorted(unknown[first : first + size])
            where = np.zeros(group.tokens.shape, dtype=bool)
            where[:, part] = group.valid[:, part]
            logits = engine.logits(group, where)
            rows, columns = np.nonzero(where)
            for t in part:
                here = columns == t
                self._known[prompt, t] = self._position(group, t, rows[here], softmax(logits[here]))
        return [self._known[prompt, t] for t in positions]

    def _position(self, group: Rollouts, t: int, rows: Any, probs: Any) -> dict[str, Any]:
        """The candidates at one position; `probs` (rows, V) of the rows that reach it.

        `position` counts from 1; `mean` holds the likeliest tokens of P_avg, `rows` those of each
        row's p. `recorded_gap` is the largest difference between p of a sampled token now and as
        recorded.
        """
        mean = probs.mean(axis=0)

        def likeliest(by: Any, p: Any | None) -> list[dict[str, Any]]:
            return [
                {
                    "token": token,
                    "text": visible(self.decode([token])) if self.decode else f"<{token}>",
                    "p": None if p is None else float(p[token]),
                    "mean": float(mean[token]),
                }
                for token in np.argsort(-by, kind="stable")[:TOP].tolist()
            ]

        sampled = probs[np.arange(len(rows)), group.tokens[rows, t]]
        prob = group.stats.get("prob")
        gap = None if prob is None else float(np.abs(sampled - prob[rows, t]).max())
        return {
            "position": t + 1,
            "recorded_gap": gap,
            "mean": likeliest(mean, None),
            "rows": {
                str(int(row) + 1): {
                    "uniqueness": max(0.0, float(STATISTICS["uniqueness"](np, p, mean))),
                    "candidates": likeliest(p, p),
                }
                for row, p in zip(rows, probs, strict=True)
            },
        }
