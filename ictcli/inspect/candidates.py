"""The likeliest tokens of p and of the group's mean P_avg at a position.

Runs do not record probabilities over the vocabulary, so the model is run again: with the weights
that sampled if they are still there, else with the nearest saved ones.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
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
from ictcli.types import FloatArray, IntArray, Rollouts

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
    """Return `model`, or the saved states of the run's model, nearest to the sampling weights
    first."""
    before = recorded.step - 1
    if model is not None:
        return [ModelState("given", model, None, before)]
    run = recorded.run
    states = [
        ModelState("checkpoint", str(path), step_of(path), before)
        for path in Run(run).checkpoints()
    ]
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and exported(run):
        states.append(ModelState("final", str(run), summary.steps, before))
    with contextlib.suppress(UserError):  # its folder is gone
        if recorded.recipe.model and snapshot(locate(recorded.recipe.model).path):
            states.append(ModelState("before", recorded.recipe.model, 0, before))
    return sorted(states, key=lambda state: abs((state.after or 0) - before))


def nearest_model(
    recorded: RecordedStep, model: str | None = None, backend: str | None = None
) -> tuple[Engine, ModelState]:
    """Load the nearest state that can be. UserError where there is none."""
    fault: Exception | None = None
    for state in saved_states(recorded, model):
        try:
            return _load(recorded, state, backend), state
        except (UserError, *DAMAGE) as error:
            fault = fault or error
    if isinstance(fault, UserError):
        raise fault
    raise UserError(
        "No model is there to ask for candidates.", "--model MODEL takes a folder or a hub id"
    ) from fault


def _load(recorded: RecordedStep, state: ModelState, backend: str | None) -> Engine:
    recipe, run, path = recorded.recipe, recorded.run, Path(state.path)
    if backend:
        recipe = recipe.with_engine(backend=backend)
    if state.kind == "checkpoint":
        check(path)
        return engine_at(run, recipe.model_dump(), path, recipe.engine)
    if state.kind == "final":
        return engine_of(path, recipe.engine)
    return build_engine(state.path, recipe.engine)


def candidates_at(
    engine: Engine, group: Rollouts, positions: Sequence[int], decode: Decode | None
) -> list[dict[str, Any]]:
    """Return the candidates at positions of a group, counted from 0 and ascending.

    `position` counts from 1; `mean` holds the likeliest tokens of P_avg, `rows` those of each row's
    p. `recorded_gap` is the largest difference between p of a sampled token now and as recorded.
    """
    row_bytes = 8 * len(group) * int(engine.describe().get("vocabulary", 1 << 17))
    size = max(1, CHUNK_BYTES // row_bytes)
    text_of: Decode = decode or engine.tokenizer.decode
    answers: list[dict[str, Any]] = []
    for first in range(0, len(positions), size):
        part = positions[first : first + size]
        where = np.zeros(group.tokens.shape, dtype=bool)
        where[:, part] = group.valid[:, part]
        logits = engine.logits(group, where)
        rows, columns = np.nonzero(where)
        for t in part:
            here = columns == t
            answers.append(_position(group, t, rows[here], softmax(logits[here]), text_of))
    return answers


def _position(
    group: Rollouts, t: int, rows: IntArray, probs: FloatArray, decode: Decode
) -> dict[str, Any]:
    """Return the candidates at one position; `probs` (rows, V) of the rows that reach it."""
    mean = probs.mean(axis=0)

    def likeliest(by: FloatArray, p: FloatArray | None) -> list[dict[str, Any]]:
        return [
            {
                "token": token,
                "text": visible(decode([token])),
                "p": None if p is None else float(p[token]),
                "mean": float(mean[token]),
            }
            for token in np.argsort(-by, kind="stable")[:TOP].tolist()
        ]

    sampled = probs[np.arange(len(rows)), group.tokens[rows, t]]
    prob = group.stats.get("prob")
    return {
        "position": t + 1,
        "recorded_gap": None if prob is None else float(np.abs(sampled - prob[rows, t]).max()),
        "mean": likeliest(mean, None),
        "rows": {
            str(int(row) + 1): {
                "uniqueness": max(0.0, float(STATISTICS["uniqueness"](np, p, mean))),
                "candidates": likeliest(p, p),
            }
            for row, p in zip(rows, probs, strict=True)
        },
    }
