"""Alarms: entropy collapse or explosion, no signal, a decline, responses cut short, non-finite
numbers, a verifier that fails."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ictcli.errors import RunFailedError
from ictcli.evaluation.evaluate import check_verdicts
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict
from ictcli.rewards.verifiers import FAILED, name_of
from ictcli.runs import Run
from ictcli.runs.checkpoints import State
from ictcli.runs.records import StepMetrics
from ictcli.runs.rollouts import Batch
from ictcli.tables.numbers import shown_share
from ictcli.tasks import Domain
from ictcli.text import command
from ictcli.train.diagnosis import (
    Signal,
    advice,
    mean,
    share_of,
    symptom,
    without_signal,
)

SURE_STEPS = 10
"""Steps in a row that kept more sure tokens than chance, after which a warning is given."""
STEPS = 5
"""Steps in a row without a group of unequal rewards that are an alarm."""
COLLAPSE_BELOW, EXPLOSION_ABOVE = 0.1, 3.0
"""Ratios of mean H1 to its first value."""
NONFINITE_LIMIT = 3
"""Non-finite steps in a row that end a run, with any recipe."""
FAILING_LIMIT = 3
"""Steps in a row that end a run where a verifier failed on all answers; one, if it never worked."""
SAMPLER_GAP = 2.0
"""Nats between log pi and that of another policy that sampled, at any trained token."""
TRUNCATED = 0.5
"""Share of a step's responses cut at `max_tokens`."""
DECLINE, NOISE, WINDOW = 0.1, 4.0, 5
"""The share of correct rollouts declines where its mean over the last `WINDOW` steps is below the
best such mean by more than `DECLINE`, and by more than `NOISE` standard errors. In 359 runs of the
study 24 did; two of them were back at their best in the end."""
SOLVED = 0.9
"""Share of correct rollouts above which they differ little because they are right."""
MESSAGES = 10
"""Kinds of verifier failures to warn of."""


def entropy_alarm(first: float, now: float) -> str | None:
    """Return collapse where mean H1 is a tenth of its first value, explosion where thrice."""
    if now < COLLAPSE_BELOW * first:
        return "collapse"
    if now > EXPLOSION_ABOVE * first:
        return "explosion"
    return None


def decline(correct: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean of the shares of correct rollouts over the best `WINDOW` steps and over the
    last ones, where these are worse. Neighbours, which a trend hardly parts, show the noise."""
    if len(correct) < 2 * WINDOW:
        return None
    means = np.convolve(correct, np.full(WINDOW, 1 / WINDOW), "valid")
    best, now = float(means[:-WINDOW].max()), float(means[-1])
    error = np.sqrt(np.mean(np.square(np.diff(correct))) / WINDOW)
    return (best, now) if best - now > max(DECLINE, NOISE * error) else None


class Health:
    """Watches the steps of a run. `say` is called with each warning."""

    def __init__(
        self, run: Run, recipe: Recipe, domain: Domain, say: Callable[[str], None]
    ) -> None:
        self.run, self.recipe, self.domain, self.say = run, recipe, domain, say
        self._failing: dict[str, int] = {}
        """By verifier the last steps in a row where it judged no answer, and failed."""
        self._warned: set[str] = set()
        self._last: set[str] = set()
        """What was wrong with the last step."""
        self._correct: list[float] = []
        """Shares of correct rollouts: of each step, or of those since the last decline."""
        self._fell: tuple[float, float] | None = None
        self._sure = 0
        """Last steps in a row that kept more sure tokens than chance does."""
        self._had_signal = False
        self._without_signal: list[Signal] = []
        """Shares of the last steps in a row whose groups all had equal rewards."""

    def check_batch(self, batch: Batch) -> None:
        """Take down whether a step has a signal, and warn of each new way in which the verifier
        fails."""
        signal = without_signal(batch)
        self._had_signal |= signal is None
        self._without_signal = [*self._without_signal, signal] if signal else []
        for name, verdicts in judged(batch, self.domain).items():
            failing = self._failing.get(name)
            if failing is None:  # a resumed run's worked before
                failing = 0 if self.run.metrics() else FAILING_LIMIT - 1
            if any(not verdict.failed and verdict.status != "timeout" for verdict in verdicts):
                failing = 0
            elif any(verdict.failed for verdict in verdicts):  # what is late may be over soon
                failing += 1
            self._failing[name] = failing
            if failing >= FAILING_LIMIT:
                check_verdicts(name, verdicts, hint_of(self.run.folder))
            reasons = [v.reason for v in verdicts if v.failed or v.status == "timeout"]
            for reason in dict.fromkeys(reasons):
                said = f"The verifier {name} failed: {reason.removeprefix(FAILED)}"
                if said not in self._warned and len(self._warned) < MESSAGES:
                    self._warned.add(said)
                    self.say(f"{said} ({reasons.count(reason)} of {len(verdicts)} responses)")

    def check(self, state: State, metrics: StepMetrics) -> dict[str, bool]:
        """Return the alarms of a finished step that the recipe does not switch off, by their keys
        of `alarms`, and whether the run stops for each. The third non-finite step in a row is
        always one."""
        if not metrics.finite:
            reaction = self.recipe.alarms.nonfinite
            stops = reaction == "stop" or state.nonfinite >= NONFINITE_LIMIT
            return {"nonfinite": stops} if stops or reaction != "off" else {}
        kept, every = metrics.kept_sure or 0.0, metrics.sure or 0.0
        self._sure = self._sure + 1 if kept > every else 0
        if self._sure == SURE_STEPS:
            found = symptom(
                "sure", self.recipe, kept_sure=shown_share(kept), sure=shown_share(every)
            )
            self.say(f"{found.sentence}. Next: {found.next}.")
        far = self.recipe.engine.off_policy and (metrics.sampler_gap or 0.0) > SAMPLER_GAP
        most = TRUNCATED / (2 if "truncated" in self._last else 1)  # or it is said again and again
        kinds: list[str | None] = [
            "no_signal" if len(self._without_signal) >= STEPS else None,
            "truncated" if (metrics.truncated or 0.0) > most else None,
            "sampler" if far else None,
            "decline" if self._declines(metrics) else None,
        ]
        if state.first_entropy and metrics.entropy is not None:
            shift = {"collapse": 0.5, "explosion": 2.0}  # as above
            factor = next((by for kind, by in shift.items() if kind in self._last), 1.0)
            kinds.append(entropy_alarm(state.first_entropy, factor * metrics.entropy))
        wrong = dict.fromkeys(filter(None, kinds))
        new = [kind for kind in wrong if kind not in self._last]  # each is said once
        self._last = {*wrong}
        reactions = {kind: getattr(self.recipe.alarms, kind) for kind in new}
        return {kind: how == "stop" for kind, how in reactions.items() if how != "off"}

    def _declines(self, metrics: StepMetrics) -> bool:
        """Return whether the share of correct rollouts fell since it was last said."""
        before, now = self._correct, metrics.correct or 0.0
        self._correct = [*before, now] if before else [m.correct or 0.0 for m in self.run.metrics()]
        self._fell = decline(self._correct)
        if self._fell:
            self._correct = [now]
        return self._fell is not None

    def react(self, alarms: Mapping[str, bool], state: State, metrics: StepMetrics) -> None:
        """Warn of alarms, then raise RunFailedError if one stops the run."""
        for kind in sorted(alarms, key=alarms.__getitem__):
            if kind == "nonfinite":
                self._nonfinite(state, metrics, stops=alarms[kind])
                continue
            sentence, way = self._symptom(kind, state, metrics)
            if alarms[kind]:
                raise RunFailedError(
                    f"{sentence}. This step is saved as {self.run.checkpoints()[-1]}.",
                    f"{way}; or set alarms.{kind} to warn in "
                    f"{self.run.folder / 'recipe.toml'}, then resume the run",
                )
            self.say(f"{sentence}. Next: {way}.")

    def _symptom(self, kind: str, state: State, metrics: StepMetrics) -> tuple[str, str]:
        """Return what is wrong with a step, and what to do about it."""
        if kind == "no_signal":
            signal, step = mean(self._without_signal), state.step
            why, way = advice(self.run.folder, self.recipe, self.domain, signal)
            if self._had_signal and signal.all_right < 0.5:  # it could be learned from before
                lost = symptom("forgotten", self.recipe, **signal.words())
                why, way = lost.sentence, lost.next
            begin = f"Nothing is learned: no group had unequal rewards in the {STEPS} steps up to"
            return f"{begin} step {step}, as {why}", way
        correct = metrics.correct or 0.0
        solved = kind == "collapse" and correct > SOLVED
        best, now = self._fell or (correct, correct)
        ended = symptom(
            "solved" if solved else kind,
            self.recipe,
            step=state.step,
            of_step=f" of step {state.step}",
            truncated=share_of(metrics.truncated or 0.0, "responses"),
            gap=metrics.sampler_gap,
            best=shown_share(best),
            now=shown_share(now),
            entropy=metrics.entropy,
            first=state.first_entropy,
            when=f"over the {WINDOW} steps up to step {state.step}",
            correct=shown_share(correct),
        )
        return ended.sentence, ended.next

    def _nonfinite(self, state: State, metrics: StepMetrics, *, stops: bool) -> None:
        reaction, updates = self.recipe.alarms.nonfinite, metrics.updates
        if reaction != "off":
            where = f"ended after {updates} of its updates" if updates else "was skipped"
            self.say(f"Step {state.step} {where}: its loss or gradient is not finite.")
        if not stops:
            return
        steps = "A step" if reaction == "stop" else f"{NONFINITE_LIMIT} steps in a row"
        ended, saved = symptom("nonfinite", self.recipe, steps=steps), self.run.checkpoints()
        last = (
            f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint was saved yet"
        )
        raise RunFailedError(f"{ended.sentence}. {last}.", f"train again: {ended.next}")


def judged(batch: Batch, domain: Domain) -> Mapping[str, Sequence[Verdict]]:
    """Return the verdicts on the step's own prompts, by the names of the verifiers."""
    return batch.own.parts or {name_of(domain.verify): batch.own.verdicts}


def hint_of(run: Path) -> str:
    """Return what to do where a verifier ended a run."""
    again = command("resume", run)
    return f"if the cause is gone, {again}; if the verifier changed, train again: --run OTHER"
