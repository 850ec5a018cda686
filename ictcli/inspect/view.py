"""Applying methods to a recorded step, and returning its groups as data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ictcli.algorithm.methods import beside, find_method
from ictcli.errors import UserError, unknown
from ictcli.inspect.group import FORMAT, GroupView, MethodView, Numbers, RolloutView
from ictcli.inspect.recorded import RecordedStep, decoder, find_recordings, read_step
from ictcli.tasks.detokenize import Decode, token_texts
from ictcli.train.sample import with_advantage
from ictcli.train.step import select
from ictcli.types import ROW_STATS, BoolArray, FloatArray

SHADINGS = {
    "uniqueness": "uniqueness u = JS(p, P_avg)",
    "entropy": "entropy H1",
    "purity": "purity β",
    "weight": "weight in the loss",
    "prob": "probability p",
}
"""The values that tokens can be shaded by, and their titles."""
USUAL = ("ict", "entropy20", "stapo", "random")
TRAINED = "trained"


@dataclass(frozen=True)
class Selection:
    """The tokens that a method keeps of a step, and their weights, (B, T) each."""

    name: str
    about: str
    kept: BoolArray
    weights: FloatArray
    trained: bool = False


def why_missing(name: str, *statistics: str) -> str:
    """Return the sentence that a method is left out because `statistics` were not recorded."""
    alone = statistics == ("uniqueness",)
    setting = "record.uniqueness=true" if alone else f"method={name}"
    needed = " and ".join(statistics)
    return f"{name} is left out: the run did not record {needed}; runs with {setting} do"


def select_all(
    recorded: RecordedStep, names: Sequence[str] = ()
) -> tuple[list[Selection], dict[str, str]]:
    """Return the selection that was trained, then what each method would have kept after its dense
    warm-up; and for each method that cannot be applied, the reason.

    The methods are `names`, by default the run's and USUAL. Each method selects as in training: on
    the whole batch with the run's mini-batches, keep, scope and seed. The run's method is listed
    once if it selects the trained tokens. UserError if a method is unknown."""
    run_method = recorded.run_method
    default = (run_method, *USUAL) if run_method else USUAL
    methods = [find_method(name) for name in dict.fromkeys(names or default)]
    selections: list[Selection] = []
    missing: dict[str, str] = {}
    for method in methods:
        batch, recipe = recorded.batch, recorded.recipe
        if absent := [n for n in (*method.wants, *ROW_STATS) if n not in batch.rollouts.stats]:
            missing[method.name] = why_missing(method.name, *absent)
            continue
        if method.name != run_method:
            update = {"method": beside(recipe.method, method.name), "control": "none"}
            recipe = recipe.model_copy(update=update)
            batch = with_advantage(recipe, batch)
        try:
            chosen = select(recipe.model_copy(update={"warmup": 0}), batch, recorded.step)
        except KeyError as error:  # a plugin uses a statistic that it does not declare
            missing[method.name] = why_missing(method.name, str(error.args[0]))
            continue
        same = method.name == run_method and np.array_equal(chosen.kept, recorded.kept)
        weights = recorded.weights if same else chosen.weights
        about = "as it was trained" if same else "on the same rollouts"
        selections.append(Selection(method.name, about, chosen.kept, weights, trained=same))
    if not any(selection.trained for selection in selections):
        about, recipe = "what was trained", recorded.recipe
        if run_method and recipe.rule.dense_warmup and recorded.step <= recipe.warmup:
            about += f": every token, in {run_method}'s dense warm-up of {recipe.warmup} steps"
        trained = Selection(TRAINED, about, recorded.kept, recorded.weights, trained=True)
        selections.insert(0, trained)
    return sorted(selections, key=lambda selection: not selection.trained), missing


def open_step(
    run: Path,
    step: int | None = None,
    methods: Sequence[str] = (),
    by: str | None = None,
    model: str | None = None,
) -> "StepView":
    """Return a recorded step, by default the last. UserError for unknown steps and methods."""
    steps = find_recordings(run)
    recorded = read_step(run, steps, max(steps) if step is None else step)
    return view_of(recorded, methods, by, model)


def view_of(
    recorded: RecordedStep, methods: Sequence[str], by: str | None, model: str | None
) -> "StepView":
    """Return a recorded step with the selections of `methods`; see `open_step`."""
    selected = select_all(recorded, methods)
    return StepView(recorded, *selected, decoder(recorded, model), methods, by, model)


def overlap(a: BoolArray, b: BoolArray) -> float | None:
    """Return the Jaccard overlap of two masks; None if both are empty."""
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else None


@dataclass
class StepView:
    """A recorded step with every method's selection."""

    recorded: RecordedStep
    selections: list[Selection]
    missing: dict[str, str]
    decode: Decode | None
    methods: Sequence[str] = ()
    """The methods that the user named, as are the shading `by` and the `model` of the tokenizer."""
    by: str | None = None
    model: str | None = None
    _texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    @property
    def prompts(self) -> int:
        return len(self.recorded.batch.problems)

    @cached_property
    def shadings(self) -> tuple[str, ...]:
        """The shadings whose values were recorded."""
        stats = self.recorded.batch.rollouts.stats
        return tuple(name for name in SHADINGS if name == "weight" or name in stats)

    @property
    def shown(self) -> str:
        """The method whose tokens are marked first: the first that the user named, or `trained`, or
        if that kept every token, the run's method."""
        names = [selection.name for selection in self.selections]
        if named := [name for name in self.methods if name in names]:
            return named[0]
        valid = self.recorded.batch.rollouts.valid
        dense = names[0] == TRAINED and self.selections[0].kept[valid].all()
        return names[1] if dense and len(names) > 1 else names[0]

    def step(self, number: int) -> "StepView":
        """Return another recorded step of the run. UserError if it cannot be read."""
        recorded = self.recorded
        step = read_step(recorded.run, recorded.steps, number)
        return view_of(step, self.methods, self.by, self.model)

    def _shading(self, by: str | None) -> str:
        """Return `by`, or the first available shading. UserError if `by` was not recorded."""
        if by is None or by in self.shadings:
            return by or self.shadings[0]
        if by not in SHADINGS:
            raise unknown("shading", by, SHADINGS, "one of " + ", ".join(SHADINGS))
        hint = "record.uniqueness=true records it" if by == "uniqueness" else "try another --by"
        raise UserError(f"The {by} of these tokens was not recorded.", hint)

    def _prompt(self, prompt: int | None) -> int:
        """Return the number of a prompt, from 1; if None, of the first whose rewards differ."""
        if prompt is None:
            signal = (self.recorded.batch.advantage != 0).reshape(self.prompts, -1).any(axis=1)
            return int(signal.argmax()) + 1
        if not 1 <= prompt <= self.prompts:
            raise UserError(
                f"There is no prompt {prompt} in step {self.recorded.step}.",
                f"--prompt must be from 1 to {self.prompts}",
            )
        return prompt

    def group(self, prompt: int | None = None, by: str | None = None) -> GroupView:
        """Return the rollouts of a prompt, by default the first with unequal rewards."""
        prompt, by = self._prompt(prompt), self._shading(by or self.by)
        recorded, batch = self.recorded, self.recorded.batch
        problem, size = batch.problems[prompt - 1], batch.rollouts.group
        rows = range((prompt - 1) * size, prompt * size)
        return GroupView(
            format=FORMAT,
            run=str(recorded.run),
            file=str(recorded.path),
            step=recorded.step,
            steps=list(recorded.steps),
            prompt=prompt,
            prompts=self.prompts,
            problem={"id": problem.id, "prompt": problem.prompt, "gold": problem.gold},
            by=by,
            shown=self.shown,
            tops=self._tops,
            methods=[self._method(selection, rows) for selection in self.selections],
            missing=self.missing,
            notes=list(recorded.notes),
            rollouts=[self._rollout(row, number) for number, row in enumerate(rows, 1)],
            tokenizer=self.decode is not None,
        )

    def _method(self, selection: Selection, rows: range) -> MethodView:
        return MethodView(
            name=selection.name,
            about=selection.about,
            trained=selection.trained,
            kept=int(selection.kept[rows.start : rows.stop].sum()),
            share=float(selection.kept[self.recorded.batch.rollouts.valid].mean()),
            overlap_with_trained=overlap(selection.kept, self.selections[0].kept),
            weight_top=self._top(np.abs(selection.weights)),
        )

    def _rollout(self, row: int, number: int) -> RolloutView:
        batch, rollouts = self.recorded.batch, self.recorded.batch.rollouts
        verdict, n = batch.verdicts[row], int(rollouts.lengths[row])
        tokens: list[int] = rollouts.tokens[row, :n].tolist()
        if row not in self._texts:
            self._texts[row] = token_texts(tokens, self.decode)
        stats = {name: _numbers(values[row, :n]) for name, values in rollouts.stats.items()}
        pairs = zip(stats.get("prob", ()), stats.get("purity", ()), strict=False)
        return RolloutView(
            row=number,
            text=batch.texts[row],
            verdict=verdict.status,
            extracted=verdict.extracted,
            reason=verdict.reason,
            reward=_numbers(batch.rewards[row : row + 1])[0],
            advantage=_numbers(batch.advantage[row : row + 1])[0],
            finished=bool(rollouts.finished[row]),
            tokens=tokens,
            pieces=self._texts[row],
            logp=_numbers(rollouts.logp[row, :n]),
            stats=stats,
            regime=[
                None if p is None or beta is None or p == beta else "R_H" if p > beta else "R_L"
                for p, beta in pairs
            ],
            kept={s.name: s.kept[row, :n].tolist() for s in self.selections},
            weights={s.name: _numbers(s.weights[row, :n]) for s in self.selections},
        )

    @cached_property
    def _tops(self) -> dict[str, float]:
        stats = self.recorded.batch.rollouts.stats
        return {
            name: 1.0 if name in ("purity", "prob") else self._top(stats[name])
            for name in self.shadings
            if name != "weight"
        }

    def _top(self, values: FloatArray) -> float:
        valid = values[self.recorded.batch.rollouts.valid]
        return max(float(valid[np.isfinite(valid)].max(initial=0.0)), 1e-12)


def _numbers(values: FloatArray) -> Numbers:
    """Return the shortest numbers that read back as the same float32."""
    short = np.asarray(values, dtype=np.float32)
    return [float(str(value)) if np.isfinite(value) else None for value in short]
