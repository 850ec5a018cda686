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
from ictcli.train.diagnosis import Signal, advice, mean, share_of, symptom, without_signal

SURE_STEPS = 10
"""Warn after this many consecutive steps that trained a larger share of near-certain tokens
(p > 0.99) than the whole batch has."""
STEPS = 5
"""An alarm is raised after this many consecutive steps in which no group has unequal rewards."""
COLLAPSE_BELOW, EXPLOSION_ABOVE = 0.1, 3.0
"""An alarm is raised if the ratio of the mean entropy to its first value is outside these."""
NONFINITE_LIMIT = 3
"""Number of consecutive non-finite steps that ends a run, even if the alarm is off."""
FAILING_LIMIT = 3
"""Number of consecutive steps that ends a run if a verifier fails on all answers; 1 if the verifier
never worked."""
SAMPLER_GAP = 2.0
"""An alarm is raised above this difference, in nats, of the model's and sampler's logp."""
TRUNCATED = 0.5
"""Share of a step's responses cut at `max_tokens` that raises an alarm."""
DECLINE, NOISE, WINDOW = 0.1, 4.0, 5
"""An alarm is raised if the mean share of correct rollouts over the last `WINDOW` steps is below
the best such mean by more than `DECLINE` and by more than `NOISE` standard errors."""
SOLVED = 0.9
"""Share of correct rollouts above which an entropy collapse means that the task is solved."""
MESSAGES = 10
"""Number of different verifier failures that are reported."""


def entropy_alarm(first: float, now: float) -> str | None:
    """Return "collapse" or "explosion" if the entropy is too far below or above its first value."""
    if now < COLLAPSE_BELOW * first:
        return "collapse"
    if now > EXPLOSION_ABOVE * first:
        return "explosion"
    return None


def decline(correct: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean share of correct rollouts over the best and the last `WINDOW` steps, if it
    declined, else None. The standard error is estimated from differences of neighbouring steps,
    which hardly contain the trend."""
    if len(correct) < 2 * WINDOW:
        return None
    means = np.convolve(correct, np.full(WINDOW, 1 / WINDOW), "valid")
    best, now = float(means[:-WINDOW].max()), float(means[-1])
    error = np.sqrt(np.mean(np.square(np.diff(correct))) / WINDOW)
    return (best, now) if best - now > max(DECLINE, NOISE * error) else None


class Health:
    """Checks the steps of a run for alarms. `say` is called with each warning."""

    def __init__(
        self, run: Run, recipe: Recipe, domain: Domain, say: Callable[[str], None]
    ) -> None:
        self.run, self.recipe, self.domain, self.say = run, recipe, domain, say
        self._failing: dict[str, int] = {}
        """By verifier, the number of last consecutive steps in which it failed on all answers."""
        self._warned: set[str] = set()
        self._last: set[str] = set()
        """Names of the alarms of the last step."""
        self._correct: list[float] = []
        """Share of correct rollouts in each step since the last decline."""
        self._fell: tuple[float, float] | None = None
        self._sure = 0
        """Number of last consecutive steps that trained too many near-certain tokens."""
        self._had_signal = False
        self._without_signal: list[Signal] = []
        """Shares in the last consecutive steps whose groups all had equal rewards."""

    def check_batch(self, batch: Batch) -> None:
        """Record whether a batch has a signal, and warn of each new failure of a verifier.
        RunFailedError if a verifier keeps failing on all answers."""
        signal = without_signal(batch)
        self._had_signal |= signal is None
        self._without_signal = [*self._without_signal, signal] if signal else []
        for name, verdicts in judged(batch, self.domain).items():
            failing = self._failing.get(name)
            if failing is None:  # in a resumed run the verifier has worked before
                failing = 0 if self.run.metrics() else FAILING_LIMIT - 1
            if any(not verdict.failed and verdict.status != "timeout" for verdict in verdicts):
                failing = 0
            elif any(verdict.failed for verdict in verdicts):  # timeouts alone may be temporary
                failing += 1
            self._failing[name] = failing
            if failing >= FAILING_LIMIT:
                check_verdicts(name, verdicts, hint_of(self.run.folder))
            reasons = [v.reason for v in verdicts if v.failed or v.status == "timeout"]
            for reason in dict.fromkeys(reasons):
                warning = f"The verifier {name} failed: {reason.removeprefix(FAILED)}"
                if warning not in self._warned and len(self._warned) < MESSAGES:
                    self._warned.add(warning)
                    self.say(f"{warning} ({reasons.count(reason)} of {len(verdicts)} responses)")

    def check(self, state: State, metrics: StepMetrics) -> dict[str, bool]:
        """Return the new alarms of a finished step: whether each stops the run, by the alarm's key
        in the recipe's table `alarms`. Alarms that the recipe switches off are left out, except
        the third consecutive non-finite step."""
        if not metrics.finite:
            reaction = self.recipe.alarms.nonfinite
            stops = reaction == "stop" or state.nonfinite >= NONFINITE_LIMIT
            return {"nonfinite": stops} if stops or reaction != "off" else {}
        kept, every = metrics.kept_sure or 0.0, metrics.sure or 0.0
        self._sure = self._sure + 1 if kept > every else 0
        if self._sure == SURE_STEPS:
            shares = {"kept_sure": shown_share(kept), "sure": shown_share(every)}
            warning = symptom("sure", self.recipe, **shares)
            self.say(f"{warning.sentence}. Next: {warning.next}.")
        has_gap = self.recipe.engine.off_policy and (metrics.sampler_gap or 0.0) > SAMPLER_GAP
        # once raised, an alarm ends at a milder limit, so that it is not raised again and again
        most = TRUNCATED / (2 if "truncated" in self._last else 1)
        kinds: list[str | None] = [
            "no_signal" if len(self._without_signal) >= STEPS else None,
            "truncated" if (metrics.truncated or 0.0) > most else None,
            "sampler" if has_gap else None,
            "decline" if self._declines(metrics) else None,
        ]
        if state.first_entropy and metrics.entropy is not None:
            shift = {"collapse": 0.5, "explosion": 2.0}  # the milder limits of these alarms
            factor = next((by for kind, by in shift.items() if kind in self._last), 1.0)
            kinds.append(entropy_alarm(state.first_entropy, factor * metrics.entropy))
        wrong = dict.fromkeys(filter(None, kinds))
        new = [kind for kind in wrong if kind not in self._last]
        self._last = {*wrong}
        reactions = {kind: getattr(self.recipe.alarms, kind) for kind in new}
        return {kind: value == "stop" for kind, value in reactions.items() if value != "off"}

    def _declines(self, metrics: StepMetrics) -> bool:
        """Return whether the share of correct rollouts declined since the last such alarm."""
        before, now = self._correct, metrics.correct or 0.0
        self._correct = [*before, now] if before else [m.correct or 0.0 for m in self.run.metrics()]
        self._fell = decline(self._correct)
        if self._fell:
            self._correct = [now]
        return self._fell is not None

    def react(self, alarms: Mapping[str, bool], state: State, metrics: StepMetrics) -> None:
        """Print the warning of each alarm, then raise RunFailedError if one stops the run."""
        for kind in sorted(alarms, key=alarms.__getitem__):
            if kind == "nonfinite":
                self._nonfinite(state, metrics, stops=alarms[kind])
                continue
            sentence, remedy = self._symptom(kind, state, metrics)
            if alarms[kind]:
                raise RunFailedError(
                    f"{sentence}. This step is saved as {self.run.checkpoints()[-1]}.",
                    f"{remedy}; or set alarms.{kind} to warn in "
                    f"{self.run.folder / 'recipe.toml'}, then resume the run",
                )
            self.say(f"{sentence}. Next: {remedy}.")

    def _symptom(self, kind: str, state: State, metrics: StepMetrics) -> tuple[str, str]:
        """Return the sentence and the advice for an alarm."""
        if kind == "no_signal":
            signal, step = mean(self._without_signal), state.step
            why, remedy = advice(self.run.folder, self.recipe, self.domain, signal)
            if self._had_signal and signal.all_right < 0.5:  # earlier steps could be learned from
                lost = symptom("forgotten", self.recipe, **signal.words())
                why, remedy = lost.sentence, lost.next
            begin = f"Nothing is learned: no group had unequal rewards in the {STEPS} steps up to"
            return f"{begin} step {step}, as {why}", remedy
        correct = metrics.correct or 0.0
        solved = kind == "collapse" and correct > SOLVED
        best, now = self._fell or (correct, correct)
        fault = symptom(
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
        return fault.sentence, fault.next

    def _nonfinite(self, state: State, metrics: StepMetrics, *, stops: bool) -> None:
        reaction, updates = self.recipe.alarms.nonfinite, metrics.updates
        if reaction != "off":
            where = f"ended after {updates} of its updates" if updates else "was skipped"
            self.say(f"Step {state.step} {where}: its loss or gradient is not finite.")
        if not stops:
            return
        steps = "A step" if reaction == "stop" else f"{NONFINITE_LIMIT} steps in a row"
        fault, saved = symptom("nonfinite", self.recipe, steps=steps), self.run.checkpoints()
        last = (
            f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint was saved yet"
        )
        raise RunFailedError(f"{fault.sentence}. {last}.", f"train again: {fault.next}")


def judged(batch: Batch, domain: Domain) -> Mapping[str, Sequence[Verdict]]:
    """Return the verdicts of each verifier on the batch as first sampled, by verifier name."""
    return batch.own.parts or {name_of(domain.verify): batch.own.verdicts}


def hint_of(run: Path) -> str:
    """Return the hint of the error with which a failing verifier ends a run."""
    resume = command("resume", run)
    return f"if the cause is gone, {resume}; if the verifier changed, train again: --run OTHER"
