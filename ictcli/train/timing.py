"""How long a training takes, by a few groups of responses and a part of an update."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ictcli.engine import Engine
from ictcli.planning.time_estimate import TimeEstimate, estimate_time
from ictcli.recipe import Recipe
from ictcli.runs.rollouts import Batch
from ictcli.seeds import seed_of
from ictcli.tasks import Task
from ictcli.tasks.sft import given_rollouts
from ictcli.tasks.task import shuffled_batch
from ictcli.train.diagnosis import share_interval
from ictcli.train.evaluations import samples_of
from ictcli.train.sample import training_sampling
from ictcli.train.step import is_finite, optimise, select
from ictcli.types import IntArray, Rollouts

FIRST, PROBED = 16, 4
"""Tokens of each response in the first update, and of those that are sampled as wide as a step."""


class Clock:
    """Seconds of what an engine does to sample."""

    def __init__(self) -> None:
        self.prefills: list[float] = []
        """Of one call each, up to the first token."""
        self.steps: list[tuple[int, float]] = []
        """Rows that were decoded side by side, and seconds."""
        self._last = 0.0

    def start(self) -> None:
        """Call before what is timed: a call of the engine, or its next token."""
        self._last = time.perf_counter()

    def tick(self, t: int, rows: IntArray, tokens: IntArray) -> None:
        """Take down the step that drew token t (`OnTokens`)."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        if t:
            self.steps.append((len(rows), seconds))
        else:
            self.prefills.append(seconds)

    def step(self) -> tuple[float, float]:
        """Return the mean rows and seconds of a decoding step."""
        rows, seconds = np.mean(self.steps or [(1, 0.0)], axis=0).tolist()
        return rows, seconds


def _tokens(rollouts: Rollouts) -> int:
    return int(rollouts.lengths.sum()) + sum(map(len, rollouts.prompts))


def _cut(batch: Batch, most: int) -> Batch:
    """Return the batch with responses of at most so many tokens and unequal advantages, as what
    has equal ones may not be run."""
    its = batch.rollouts
    short = its.lengths > most
    rollouts = replace(
        its,
        tokens=its.tokens[:, :most],
        lengths=np.minimum(its.lengths, most).astype(its.lengths.dtype),
        finished=its.finished & ~short,
        logp=its.logp[:, :most],
        stats={name: values[:, :most] for name, values in its.stats.items()},
    )
    unequal = np.resize([1.0, -1.0], len(batch.texts))
    return replace(batch, rollouts=rollouts, advantage=unequal)


def time_update(recipe: Recipe, engine: Engine, group: Batch, until: float) -> tuple[float, bool]:
    """Return the seconds of an update for each of its tokens, and whether its numbers are finite.
    The first update, of the starts of a group's responses, warms up; a second one, of all that
    they hold, is timed if it fits before `until`. It trains as after a dense warm-up."""
    rate, finite = 0.0, True
    part = recipe.model_copy(update={"prompts": 1, "warmup": 0, "group": group.rollouts.group})
    for most in (FIRST, recipe.max_tokens):
        piece = _cut(group, most)
        tokens, started = _tokens(piece.rollouts), time.perf_counter()
        if rate * tokens > until - started:
            break
        reports = optimise(part, engine, piece, select(part, piece, 1), 1)
        finite = finite if rate else is_finite(reports)  # of the model as it is
        rate = (time.perf_counter() - started) / tokens
    return rate, finite


def estimate(
    recipe: Recipe,
    engine: Engine,
    task: Task,
    batches: Sequence[Batch],
    clock: Clock,
    heldout: int,
    rate: float,
    until: float,
) -> TimeEstimate:
    """Estimate the time of a run, whose responses are as long as those of the batches and whose
    update takes `rate` seconds a token."""
    rollouts = [batch.own.rollouts for batch in batches]
    lengths = np.concatenate([each.lengths for each in rollouts])
    mean, longest = float(lengths.mean()), int(lengths.max())
    prompt = float(np.mean([len(each.prompts[0]) for each in rollouts]))
    wide = min(recipe.prompts * recipe.group, engine.budget.rows)
    rows, seconds = clock.step()
    prefill = float(np.mean(clock.prefills[1:] or clock.prefills))  # the first one warms up
    each = seconds / rows
    every = 0.0  # what a decoding step takes, however many rows it has
    width = max(wide // recipe.group, 1)
    if width > 1 and width * prefill + PROBED * wide * each < until - time.perf_counter():
        probe, sampling = Clock(), training_sampling(recipe, engine)
        probe.start()
        ids = [list(r.prompts[0]) for r in rollouts] * width
        few = replace(sampling, max_tokens=PROBED, stop_ids=())
        seed = seed_of(recipe.seed, "check")
        engine.generate(ids[:width], recipe.group, few, seed, on_tokens=probe.tick)
        more, slower = probe.step()
        if more > rows:
            each = max((slower - seconds) / (more - rows), 0.0)
            every = max(seconds - each * rows, 0.0)

    def sampling_s(prompts: int, n: float) -> float:
        passes = -(-prompts * n // max(engine.budget.rows, n))
        return prompts * prefill + passes * longest * every + prompts * n * mean * each

    groups = len(batches)
    signal = share_interval(sum(int(b.has_signal.sum()) for b in batches), groups)
    drawn = sum((1 - signal.value) ** k for k in range(recipe.sampling.redraw + 1))
    trained = 1.0 if recipe.kl or recipe.sft.data else signal.high  # others are not run
    update_s = rate * trained * recipe.prompts * (prompt + recipe.group * mean)
    whole = estimate_time(recipe, drawn * sampling_s(recipe.prompts, recipe.group) + update_s, 0.0)
    ends = [samples_of(recipe, label) for label in ("before", "after")]
    n = (sum(ends) + recipe.eval.n * (whole.evaluations - len(ends))) / whole.evaluations
    problems = min(recipe.eval.problems, heldout)
    whole = replace(whole, evaluation=sampling_s(problems, n))
    if not task.sft:
        return whole
    examples = shuffled_batch(task.sft, recipe.seed, 1, recipe.sft.batch)
    given = given_rollouts(engine, examples, task.domain, task.prompt)
    return replace(whole, supervised=recipe.sft.steps, supervised_step=rate * _tokens(given))
