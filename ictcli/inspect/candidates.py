"""What the model would have said: the likeliest tokens of p and of the group's mean P_avg.

Probabilities were not recorded over the vocabulary, so the model is asked again: with the weights
that sampled, where they are still there, else the nearest in the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.algorithm import quantities
from ictcli.algorithm.dynamics import softmax
from ictcli.engine import Engine, build_engine
from ictcli.engine.models import locate, snapshot
from ictcli.errors import UserError
from ictcli.inspect.pieces import Decode
from ictcli.inspect.record import Recorded
from ictcli.runs import Run
from ictcli.runs.checkpoints import DAMAGE, check
from ictcli.text import visible
from ictcli.types import Rollouts

TOP = 8
CHUNK_BYTES = 1 << 28


@dataclass(frozen=True)
class Weights:
    """A state of the model."""

    kind: str
    """checkpoint, final, before, or given."""
    path: str
    after: int | None
    """Steps trained; None where that is not known."""
    wanted: int
    """Steps trained when the rollouts were sampled."""

    @property
    def exact(self) -> bool:
        return self.after == self.wanted

    @property
    def sentence(self) -> str:
        """Which state it is, plainly."""
        named = {
            "checkpoint": f"the checkpoint after step {self.after}",
            "final": f"the final model, after step {self.after}",
            "before": "the model before training",
            "given": f"the model {self.path}",
        }[self.kind]
        if self.exact:
            return f"By the weights that sampled this step: {named}."
        sampled = f"after step {self.wanted}" if self.wanted else "before training"
        return f"By {named}: not by the weights that sampled this step, those {sampled}."


def states(recorded: Recorded, model: str | None = None) -> list[Weights]:
    """The states of the run's model that there are, nearest to the one that sampled first."""
    wanted = recorded.step - 1
    if model is not None:
        return [Weights("given", model, None, wanted)]
    run = recorded.place.run
    if run is None:
        return []
    found = [
        Weights("checkpoint", str(path), int(path.name.removeprefix("step-")), wanted)
        for path in Run(run).checkpoints()
    ]
    if (run / "summary.json").is_file() and any((run / n).is_dir() for n in ("model", "adapter")):
        steps = json.loads((run / "summary.json").read_text(encoding="utf-8")).get("steps")
        found.append(Weights("final", str(run), steps, wanted))
    try:
        if recorded.recipe.model and snapshot(locate(recorded.recipe.model).path):
            found.append(Weights("before", recorded.recipe.model, 0, wanted))
    except UserError:
        pass  # its folder is gone
    return sorted(found, key=lambda state: abs((state.after or 0) - wanted))


class Model:
    """The engine of one recorded step, loaded at the first question."""

    def __init__(
        self,
        recorded: Recorded,
        decode: Decode | None,
        given: str | None = None,
        backend: str | None = None,
    ) -> None:
        self.recorded = recorded
        self._backend = backend
        self._decode = decode
        self._given = given
        self._engine: Engine | None = None
        self.weights: Weights | None = None
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def load(self) -> Weights:
        """The nearest state that can be loaded. UserError where there is none."""
        if self.weights is not None:
            return self.weights
        fault: Exception | None = None
        for state in states(self.recorded, self._given):
            try:
                self._engine = self._build(state)
            except (UserError, *DAMAGE) as error:
                fault = fault or error
                continue
            self.weights = state
            self._decode = self._decode or _decoder_of(self._engine)
            return state
        if isinstance(fault, UserError):
            raise fault
        raise UserError(
            "No model is there to ask for candidates.", "--model MODEL takes a folder or a hub id"
        ) from fault

    def _build(self, state: Weights) -> Engine:
        recipe = self.recorded.recipe
        settings = recipe.engine
        if self._backend:
            settings = settings.model_copy(update={"backend": self._backend})
        if state.kind != "checkpoint":
            return build_engine(state.path, settings)
        check(Path(state.path))
        engine = build_engine(recipe.model, settings, recipe.optimizer, recipe.adapters)
        engine.restore(Path(state.path))
        return engine

    def at(self, prompt: int, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The candidates at positions of a prompt's group, both from 0 (see `_position`)."""
        self.load()
        assert self._engine is not None
        asked = [t for t in positions if (prompt, t) not in self._known]
        group = self.recorded.batch.rollouts.groups(prompt, prompt + 1)
        row_bytes = 8 * len(group) * int(self._engine.describe().get("vocabulary", 1 << 17))
        size = max(1, CHUNK_BYTES // row_bytes)
        for first in range(0, len(asked), size):
            self._ask(group, prompt, sorted(asked[first : first + size]))
        return [self._known[prompt, t] for t in positions]

    def _ask(self, group: Rollouts, prompt: int, positions: list[int]) -> None:
        assert self._engine is not None
        end = positions[-1] + 1
        cut = replace(
            group,
            tokens=group.tokens[:, :end],
            lengths=np.minimum(group.lengths, end),
            logp=group.logp[:, :end],
            stats={},
        )
        where = np.zeros(cut.tokens.shape, dtype=bool)
        where[:, positions] = cut.valid[:, positions]
        logits = self._engine.logits(cut, where)
        rows, columns = np.nonzero(where)
        for t in positions:
            here = columns == t
            self._known[prompt, t] = self._position(group, t, rows[here], softmax(logits[here]))

    def _position(self, group: Rollouts, t: int, rows: Any, probs: Any) -> dict[str, Any]:
        """One position: the rows that reach it, `probs` (rows, V).

        Gives position (from 1), mean: the likeliest tokens of P_avg, rows: of each row that
        reaches it those of p; each with p and the mean's. `recorded_gap` is the largest difference
        between p of a sampled token here and as recorded.
        """
        mean = probs.mean(axis=0)

        def table(by: Any, p: Any | None) -> list[dict[str, Any]]:
            best = np.argsort(-by, kind="stable")[:TOP]
            return [
                {
                    "token": int(i),
                    "text": self._text(int(i)),
                    "p": None if p is None else float(p[i]),
                    "mean": float(mean[i]),
                }
                for i in best
            ]

        sampled = probs[np.arange(len(rows)), group.tokens[rows, t]]
        prob = group.stats.get("prob")
        gap = None if prob is None else float(np.abs(sampled - prob[rows, t]).max())
        return {
            "position": t + 1,
            "recorded_gap": gap,
            "mean": table(mean, None),
            "rows": {
                str(int(row) + 1): {
                    "uniqueness": max(0.0, float(quantities.js(np, p, mean))),
                    "candidates": table(p, p),
                }
                for row, p in zip(rows, probs, strict=True)
            },
        }

    def _text(self, token: int) -> str:
        return f"<{token}>" if self._decode is None else visible(self._decode([token]))


def _decoder_of(engine: Engine) -> Decode:
    return lambda ids: str(engine.tokenizer.decode(list(ids)))
