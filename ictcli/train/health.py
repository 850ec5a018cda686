"""Alarms: entropy collapse or explosion, no signal, responses cut short, non-finite numbers, a
verifier that fails."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from ictcli.errors import NothingLearnedError, RunFailedError
from ictcli.recipe import Recipe
from ictcli.recipe.metrics import direction, is_dense
from ictcli.rewards import Verdict, Verifier
from ictcli.rewards.verifiers import FAILED, name_of
from ictcli.runs import Run, checkpoints
from ictcli.runs.checkpoints import State
from ictcli.runs.records import StepMetrics, Summary, Unlearned
from ictcli.runs.rollouts import Batch
from ictcli.tables.numbers import counted
from ictcli.tasks import Domain
from ictcli.text import shell_word

COLLAPSE_BELOW, EXPLOSION_ABOVE = 0.1, 3.0
"""Of mean H1 against its first value."""
TRIAL = 5
"""A training of fewer steps tries something out, and ends as it should without a gradient."""
NONFINITE_LIMIT = 3
"""Non-finite steps in a row that end a run, whatever the recipe says."""
SAMPLER_GAP = 2.0
"""Nats between log pi and that of another policy that sampled, at any trained token."""
TRUNCATED = 0.5
"""Of a step's responses, cut at `max_tokens`."""
STEPS = 5
"""Steps in a row without a group of unequal rewards that are an alarm."""
MESSAGES = 10
"""Kinds of verifier failures to warn of."""


def entropy_alarm(first: float, now: float) -> str | None:
    """`collapse`: mean H1 under a tenth of its first value; `explosion`: over three times."""
    if now < COLLAPSE_BELOW * first:
        return "collapse"
    if now > EXPLOSION_ABOVE * first:
        return "explosion"
    return None


@dataclass(frozen=True)
class Alarm:
    """Something wrong with a step, and whether the run stops for it."""

    kind: str
    """One of the keys of `alarms`."""
    stops: bool


class Health:
    """Watches the steps of a run. `say` is called with each warning."""

    def __init__(
        self, run: Run, recipe: Recipe, domain: Domain, say: Callable[[str], None]
    ) -> None:
        self.run = run
        self.recipe = recipe
        self.domain = domain
        self.say = say
        self._warned: set[str] = set()
        self._last: set[str] = set()
        """What was wrong with the last step."""
        self._had_signal = False
        self._without_signal: list[Shares] = []
        """Of the last steps in a row whose groups all had equal rewards."""

    def check_batch(self, batch: Batch) -> None:
        """Take down whether a step has a signal, and warn of each new way in which the verifier
        fails."""
        shares = shares_of(batch)
        self._had_signal |= shares is None
        self._without_signal = [*self._without_signal, shares] if shares else []
        for name, verdicts in judged(batch, self.domain).items():
            check_verdicts(name, verdicts, hint_of(self.run.folder))
            reasons = [verdict.reason for verdict in verdicts if verdict.failed]
            for reason in dict.fromkeys(reasons):
                said = f"The verifier {name} failed: {reason.removeprefix(FAILED)}"
                if said not in self._warned and len(self._warned) < MESSAGES:
                    self._warned.add(said)
                    self.say(f"{said} ({reasons.count(reason)} of {len(verdicts)} responses)")

    def update_best(self, state: State, metrics: StepMetrics, *, due: bool) -> bool:
        """`checkpoints.update_best` by `checkpoint.best`; warns once where a step lacks it."""
        metric = self.recipe.checkpoint.best
        if metric and due and metric not in self._warned:
            name = direction(metric)[0]
            if is_dense(name) and metrics.value(name) is None:
                self._warned.add(metric)
                self.say(
                    f"checkpoint.best: step {state.step} has no {name}, and is not judged by it."
                )
        return checkpoints.update_best(state, metric, metrics, due=due)

    def check(self, state: State, metrics: StepMetrics) -> list[Alarm]:
        """The alarms of a finished step that the recipe does not switch off. The third non-finite
        step in a row is always one."""
        if not metrics.finite:
            reaction = self.recipe.alarms.nonfinite
            stops = reaction == "stop" or state.nonfinite >= NONFINITE_LIMIT
            return [Alarm("nonfinite", stops)] if stops or reaction != "off" else []
        far = self.recipe.engine.off_policy and (metrics.sampler_gap or 0.0) > SAMPLER_GAP
        most = TRUNCATED / (2 if "truncated" in self._last else 1)  # or it is said again and again
        kinds: list[str | None] = [
            "no_signal" if len(self._without_signal) >= STEPS else None,
            "truncated" if (metrics.truncated or 0.0) > most else None,
            "sampler" if far else None,
        ]
        if state.first_entropy and metrics.entropy is not None:
            kinds.append(entropy_alarm(state.first_entropy, metrics.entropy))
        wrong = dict.fromkeys(filter(None, kinds))
        new = [kind for kind in wrong if kind not in self._last]  # each is said once
        self._last = {*wrong}
        reactions = {kind: getattr(self.recipe.alarms, kind) for kind in new}
        return [Alarm(kind, how == "stop") for kind, how in reactions.items() if how != "off"]

    def react(self, alarms: Sequence[Alarm], state: State, metrics: StepMetrics) -> None:
        """Warn of alarms, then raise RunFailedError if one stops the run."""
        for alarm in sorted(alarms, key=lambda alarm: alarm.stops):
            if alarm.kind == "nonfinite":
                self._nonfinite(alarm, state, metrics)
            else:
                self._react(alarm, state, metrics)

    def _react(self, alarm: Alarm, state: State, metrics: StepMetrics) -> None:
        """No signal, responses cut short, a sampler too far off, or an alarm of the entropy."""
        if alarm.kind == "no_signal":
            shares = mean(self._without_signal)
            message = sentence(state.step, shares)
            hint = advice(self.run.folder, self.recipe, self.domain, shares)
            if self._had_signal and shares.all_right < 0.5:  # it could be learned from before
                hint = f"lr={self.recipe.lr / 10:g} (earlier steps had a signal)"
            warning = f"{message} Next: {hint}"
        elif alarm.kind == "truncated":
            message = (
                f"{metrics.truncated:.0%} of the responses of step {state.step} are cut at "
                f"max_tokens={self.recipe.max_tokens}: where the answer comes last, they have none."
            )
            hint = f"max_tokens={2 * self.recipe.max_tokens} gives room for longer ones"
            warning = f"{message} {hint}."
        elif alarm.kind == "sampler":
            message = (
                f"log pi of a token is {metrics.sampler_gap:.2g} nats from that of what "
                f"sampled it ({self.recipe.engine.sampler}), at step {state.step}."
            )
            hint = "engine.sampler=own samples from the model itself"
            warning = f"{message} {hint}."
        else:
            warning = message = (
                f"Entropy {alarm.kind}: {metrics.entropy:.3g} nats a token at step {state.step}, "
                f"{state.first_entropy:.3g} at the first."
            )
            warning += f" A smaller lr than {self.recipe.lr:g} often mends it."
            hint = f"set alarms.{alarm.kind} to warn in {self.run.folder / 'recipe.toml'}, "
            hint += "then resume the run"
        if not alarm.stops:
            self.say(warning)
            return
        raise RunFailedError(f"{message} This step is saved as {self.run.checkpoints()[-1]}.", hint)

    def _nonfinite(self, alarm: Alarm, state: State, metrics: StepMetrics) -> None:
        reaction = self.recipe.alarms.nonfinite
        if reaction != "off":
            done = metrics.updates
            where = f"ended after {done} of its updates" if done else "was skipped"
            self.say(f"Step {state.step} {where}: its loss or gradient is not finite.")
        if not alarm.stops:
            return
        steps = "A step" if reaction == "stop" else f"{NONFINITE_LIMIT} steps in a row"
        silent = state.skipped - state.nonfinite if reaction == "off" else 0
        more = f"; {silent} before had too, and were left out without a warning" if silent else ""
        saved = self.run.checkpoints()
        last = (
            f"The last good checkpoint is {saved[-1]}" if saved else "No checkpoint was saved yet"
        )
        raise RunFailedError(
            f"{steps} had a loss or gradient that is not finite{more}. {last}.",
            f"train again with a smaller learning rate than lr={self.recipe.lr:g}",
        )


def judged(batch: Batch, domain: Domain) -> Mapping[str, Sequence[Verdict]]:
    """The verdicts on the step's own prompts, by the names of the verifiers."""
    return batch.own.parts or {name_of(domain.verify): batch.own.verdicts}


def hint_of(run: Path) -> str:
    """What to do where a verifier ended a run."""
    return f"mend it, then train again: with --run OTHER, or after ictcli runs rm {run.name}"


def check_verdicts(name: str, verdicts: Sequence[Verdict], hint: str) -> None:
    """RunFailedError where the verifier of that name failed on every one of some answers."""
    if verdicts and all(verdict.failed for verdict in verdicts):
        reason = verdicts[0].reason.removeprefix(FAILED)
        raise RunFailedError(
            f"The verifier {name} raised on all of {len(verdicts)} answers: {reason}.", hint
        )


@dataclass(frozen=True)
class Shares:
    """Of a step without signal: shares of responses, then shares of groups."""

    unparsed: float
    truncated: float
    all_right: float
    all_wrong: float


def shares_of(batch: Batch) -> Shares | None:
    """The shares of a step; None if the rewards of a group differ."""
    if batch.advantage.any():
        return None
    right = batch.correct.reshape(-1, batch.rollouts.group)
    unparsed = [verdict.status == "unparsed" for verdict in batch.verdicts]
    return Shares(
        unparsed=float(np.mean(unparsed)),
        truncated=float(1 - batch.rollouts.finished.mean()),
        all_right=float(right.all(axis=1).mean()),
        all_wrong=float((~right.any(axis=1)).mean()),
    )


def mean(steps: Sequence[Shares]) -> Shares:
    """The mean shares of some steps."""
    return Shares(*np.mean([astuple(step) for step in steps], axis=0).tolist())


def sentence(step: int, shares: Shares) -> str:
    """What is wrong, as the alarm says it."""
    return (
        f"Nothing is learned: no group of unequal rewards in the {STEPS} steps up to step {step}. "
        f"Of their responses {shares.unparsed:.0%} are unparsed and {shares.truncated:.0%} "
        f"truncated; of their groups {shares.all_right:.0%} are all right and "
        f"{shares.all_wrong:.0%} all wrong."
    )


def check_learned(summary: Summary) -> None:
    """NothingLearnedError where every gradient of `TRIAL` steps or more was 0."""
    if summary.unlearned and summary.steps >= TRIAL:
        raise NothingLearnedError(summary.unlearned.sentence, summary.unlearned.hint)


def unlearned(run: Run, recipe: Recipe, domain: Domain) -> Unlearned | None:
    """Why nothing was learned, where every gradient of a run was 0; else None."""
    steps = list(run.metrics())
    if not steps or any(metrics.grad_norm or not metrics.finite for metrics in steps):
        return None

    def share(name: str) -> float:
        values = [metrics.value(name) for metrics in steps]
        return float(np.mean([value for value in values if value is not None] or [0.0]))

    first = " after the supervised steps" * bool(recipe.sft.data)
    begin, number = f"Nothing was learned{first}, because", counted(len(steps), "step")
    if signal := share("groups_with_signal"):
        return Unlearned(
            sentence=f"{begin} every gradient of {number} was 0: {recipe.label} keeps "
            f"{share('share_kept'):.1%} of the tokens, none where rewards differ, as they do in "
            f"{signal:.0%} of the groups.",
            hint="method=grpo trains every token",
        )
    correct = share("correct")
    shares = Shares(share("unparsed"), share("truncated"), correct, 1 - correct)
    return Unlearned(
        sentence=f"{begin} the rewards of a group differed in none of {number}: of the responses "
        f"{correct:.0%} are correct, {shares.unparsed:.0%} unparsed and {shares.truncated:.0%} "
        "truncated.",
        hint=advice(run.folder, recipe, domain, shares),
    )


def advice(run: Path, recipe: Recipe, domain: Domain, shares: Shares) -> str:
    """What to type next, and why."""
    grade = grade_command(run, recipe, domain)
    wider = f"group={2 * recipe.group}"
    if shares.truncated >= 0.5:
        return f"max_tokens={2 * recipe.max_tokens} (room for longer responses)"
    if shares.unparsed >= 0.5:
        way = "" if recipe.sft.data else "; sft.data=FILE (a few supervised steps teach the form)"
        return f"{grade} (shows where an answer is looked for){way}"
    if shares.all_right >= 0.5:
        return f"{wider} (more responses to each problem), or harder problems"
    if shares.all_wrong >= 0.5:
        return f"{grade} (shows how answers are judged); then {wider}, or easier problems"
    return f"{wider} (more responses to each problem)"


def grade_command(run: Path, recipe: Recipe, domain: Domain) -> str:
    """`ictcli grade` on the responses before training, judged as the run does."""
    options: list[str] = []
    if isinstance(domain.verify, Verifier):
        options += ["--kind", domain.verify.name]
    for plugin in recipe.plugins:
        options += ["--plugin", plugin]
    if domain.pattern is not None:
        options += ["--pattern", domain.pattern]
    file = run / "eval" / "before.jsonl"
    return f"ictcli grade {shell_word(file)} {shlex.join([*options, '--explain'])}"
