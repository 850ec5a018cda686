"""Estimate how long a run takes, from a few groups of responses and a part of an update."""

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
"""Tokens per response in the warm-up update, and in the trial of sampling many rows at once."""


class Clock:
    """Measures the prefills and decoding steps of an engine, in seconds."""

    def __init__(self) -> None:
        self.prefills = list[float]()
        """Seconds of each call of the engine up to the first token."""
        self.steps = list[tuple[int, float]]()
        """Number of rows and seconds of each decoding step."""
        self.start()

    def start(self) -> None:
        """Start timing a call of the engine, or its next token."""
        self._last = time.perf_counter()

    def tick(self, t: int, rows: IntArray, tokens: IntArray) -> None:
        """Record the seconds of the decoding step that drew token t; an `OnTokens` callback."""
        seconds = time.perf_counter() - self._last
        self.start()
        if t:
            self.steps.append((len(rows), seconds))
        else:
            self.prefills.append(seconds)

    def step(self) -> tuple[float, float]:
        """Return the mean number of rows and mean seconds of a decoding step."""
        rows, seconds = np.mean(self.steps or [(1, 0.0)], axis=0).tolist()
        return rows, seconds


def _tokens(rollouts: Rollouts) -> int:
    return int(rollouts.lengths.sum()) + sum(map(len, rollouts.prompts))


def time_update(recipe: Recipe, engine: Engine, group: Batch, until: float) -> tuple[float, bool]:
    """Return the seconds of an update per token, and whether loss and gradient are finite. A first
    update, on the first tokens of a group's responses, is a warm-up; a second, on all tokens, is
    timed if it can end before `until`. Tokens are selected as after the dense warm-up."""
    rate, finite, whole = 0.0, True, group.rollouts
    part = recipe.model_copy(update={"prompts": 1, "warmup": 0, "group": whole.group})
    unequal = np.resize([1.0, -1.0], len(whole))  # an update with zero advantages may be skipped
    for most in (FIRST, recipe.max_tokens):
        cut = replace(whole, lengths=np.minimum(whole.lengths, most).astype(np.int32))
        cut = cut.take(slice(None), whole.prompts, whole.group)
        piece = replace(group, rollouts=cut, advantage=unequal)
        tokens, started = _tokens(cut), time.perf_counter()
        if rate * tokens > until - started:
            break
        reports = optimise(part, engine, piece, select(part, piece, 1), 1)
        finite = finite if rate else is_finite(reports)  # before the first update of the weights
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
    """Estimate the time of a run if its responses are as long as those in `batches`, and an update
    takes `rate` seconds a token."""
    rollouts = [batch.own.rollouts for batch in batches]
    lengths = np.concatenate([group.lengths for group in rollouts])
    prompt = float(np.mean([len(group.prompts[0]) for group in rollouts]))
    rows, seconds = clock.step()
    prefill = float(np.mean(clock.prefills[1:] or clock.prefills))  # the first one warms up
    per_row, per_step = seconds / rows, 0.0  # seconds of a decoding step: of each row, and fixed
    width = min(recipe.prompts, max(engine.budget.rows // recipe.group, 1))
    needed = width * (prefill + PROBED * recipe.group * per_row)
    if width > 1 and needed < until - time.perf_counter():
        probe, ids = Clock(), [list(group.prompts[0]) for group in rollouts] * width
        few = replace(training_sampling(recipe, engine), max_tokens=PROBED, stop_ids=())
        seed = seed_of(recipe.seed, "check")
        engine.generate(ids[:width], recipe.group, few, seed, on_tokens=probe.tick)
        more, slower = probe.step()
        if more > rows:
            per_row = max((slower - seconds) / (more - rows), 0.0)
            per_step = max(seconds - per_row * rows, 0.0)

    def sampling_s(prompts: int, n: int) -> float:
        passes = -(-prompts * n // max(engine.budget.rows, n))
        steps = passes * int(lengths.max())
        return prompts * (prefill + n * float(lengths.mean()) * per_row) + steps * per_step

    signal = share_interval(sum(int(b.has_signal.sum()) for b in batches), len(batches))
    drawn = sum((1 - signal.value) ** k for k in range(recipe.sampling.redraw + 1))
    trained = 1.0 if recipe.kl or recipe.sft_steps else signal.high  # equal groups may be skipped
    tokens = recipe.prompts * (prompt + recipe.group * float(lengths.mean()))
    step_s = drawn * sampling_s(recipe.prompts, recipe.group) + rate * trained * tokens
    problems = min(recipe.eval.problems, heldout)
    whole = estimate_time(recipe, step_s, sampling_s(problems, samples_of(recipe, "after")))
    if not task.sft:
        return whole
    examples = shuffled_batch(task.sft, recipe.seed, 1, recipe.sft.batch)
    rollouts = given_rollouts(engine, examples, task.domain, task.prompt)
    return replace(whole, supervised=recipe.sft.steps, supervised_step=rate * _tokens(rollouts))
